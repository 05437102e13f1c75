"""A guest that ends the program."""

raise SystemExit(3)
