"""Pictures of models: a table of its layers, and the graph that a result was computed by."""

from plugrad.pictures.graphs import GraphPicture, draw
from plugrad.pictures.summaries import Summary, summary

__all__ = ["GraphPicture", "Summary", "draw", "summary"]
