"""Trackers of training runs."""
