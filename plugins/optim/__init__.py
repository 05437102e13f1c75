"""Optimizers and learning-rate schedules, one algorithm a file."""
