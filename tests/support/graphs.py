"""Capturing CUDA graphs in tests."""

import plugrad as torch

WARM = 2


def warmed(step, count=WARM):
    """Run a step a few times on a side stream, as a capture needs it; return what it returned."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        results = [step() for _ in range(count)]
    torch.cuda.current_stream().wait_stream(side)
    return results


def captured(step, **options):
    """Return the graph of a step, and its result."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options):
        result = step()
    return graph, result
