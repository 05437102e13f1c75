"""A guest that fails while it is imported, when its op is used."""

raise KeyError("the guest is broken\nin two lines")
