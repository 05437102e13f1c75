"""A plugin that fails while it is imported, when its op is used."""

raise KeyError("the plugin is broken\nin two lines")
