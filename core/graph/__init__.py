"""The recorded graph: nodes and what they save, hooks on nodes, versions of storages, and the modes of a thread."""
