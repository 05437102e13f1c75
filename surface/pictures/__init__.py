"""Pictures of models: a table of its layers, and the graph that a result was computed by."""

from plugrad.registry.namespaces import lazy_names

__all__ = ["GraphPicture", "Summary", "draw", "summary"]

# Found when they are used: what files of events hold of a graph needs the tape alone, and is loaded with plugins.
__getattr__, __dir__ = lazy_names(globals(), None, {
    "pictures.graphs": "GraphPicture draw", "pictures.summaries": "Summary summary",
})  # fmt: skip
