"""A plugin that asks to be loaded with plugrad, and fails."""

raise RuntimeError("no luck")
