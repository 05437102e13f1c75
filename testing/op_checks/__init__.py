"""The checks of ops, by subject; which of them an op has is in `plugrad.testing.checks.ops`."""
