"""A plugin that ends the program."""

raise SystemExit(3)
