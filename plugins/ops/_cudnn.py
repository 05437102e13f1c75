"""Large convolutions, and attention of half precision, by cuDNN, where `plugrad[cudnn]` brings it.

NVIDIA's frontend makes a graph of one operation for each geometry, and cuDNN plans for it, which are kept. What it does
not serve it says when a graph is made; then plugrad's own kernels compute. `torch.backends.cudnn` holds the switches.
"""

from __future__ import annotations

import functools
import threading
import time

import plugrad

TYPES = {"float32": "FLOAT", "float16": "HALF", "bfloat16": "BFLOAT16"}
MOST = 2048  # graphs that are kept
WORKSPACE = 256 << 20  # bytes that a plan may use
_graphs: dict = {}
_handles: dict = {}


def switches():
    """Return the switches, where cuDNN is to be asked; else None."""
    chosen = plugrad.backends.cudnn
    return chosen if chosen.enabled and chosen.library()[0] is not None else None


def state() -> str:
    """Return what `plugrad why` says of cuDNN."""
    chosen = plugrad.backends.cudnn
    return chosen.library()[1] if chosen.enabled else "not asked, torch.backends.cudnn.enabled is False"


def _handle(xp, module):
    """Return the device at hand, and this thread's handle for it, on the stream at hand."""
    device = xp.cuda.runtime.getDevice()
    place = device, threading.get_ident()
    handle = _handles.get(place)
    if handle is None:
        handle = _handles[place] = module.create_handle()
    module.set_stream(handle, xp.cuda.get_current_stream().ptr)
    return device, handle


class Graph:
    """One operation of cuDNN, planned: a function of the addresses of its tensors."""

    def __init__(self, xp, module, handle, tensors, dtype, build, exact, repeatable, try_plans):
        kind = getattr(module.data_type, TYPES[dtype])
        single = module.data_type.FLOAT
        self.graph = graph = module.pygraph(
            io_data_type=kind, intermediate_data_type=single, compute_data_type=single, handle=handle
        )
        self.index, described = None, [one for one in tensors if one is not None]
        inputs = [graph.tensor(name=f"t{n}", dim=list(shape), stride=list(steps), data_type=kind_of or kind)
                  for n, (shape, steps, kind_of) in enumerate(described)]  # fmt: skip
        outputs = build(graph, *inputs)
        for tensor, (shape, steps, kind_of) in outputs:
            tensor.set_output(True).set_data_type(kind_of or kind).set_dim(list(shape)).set_stride(list(steps))
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([module.heur_mode.A, module.heur_mode.FALLBACK])
        graph.deselect_workspace_greater_than(WORKSPACE)
        notes = module.numerical_note
        graph.deselect_numeric_notes(
            [notes.TENSOR_CORE, notes.DOWN_CONVERT_INPUTS] * exact + [notes.NONDETERMINISTIC] * repeatable
        )
        graph.check_support()
        graph.build_plans(module.build_plan_policy.ALL if try_plans else module.build_plan_policy.HEURISTICS_CHOICE)
        self.uids = [tensor.get_uid() for tensor in [*inputs, *[tensor for tensor, _ in outputs]]]
        self.workspace = graph.get_workspace_size()

    def __call__(self, xp, handle, arrays):
        workspace = xp.cuda.alloc(max(self.workspace, 1))
        given = {uid: array.data.ptr for uid, array in zip(self.uids, arrays)}
        if self.index is None:
            self.graph.execute(given, workspace.ptr, handle=handle)
        else:
            self.graph.execute_plan_at_index(given, workspace.ptr, self.index, handle=handle)

    def choose(self, xp, module, handle, arrays, limit):
        """Find the fastest of the plans, as `torch.backends.cudnn.benchmark` asks."""
        best = None
        count = self.graph.get_execution_plan_count()
        for index in range(min(count, limit) if limit else count):
            try:
                self.index, self.workspace = index, self.graph.get_workspace_size_plan_at_index(index)
                self(xp, handle, arrays)
                xp.cuda.get_current_stream().synchronize()
                start = time.perf_counter()
                for _ in range(3):
                    self(xp, handle, arrays)
                xp.cuda.get_current_stream().synchronize()
            except RuntimeError:  # a plan that was not built, or has no room
                continue
            took = time.perf_counter() - start
            if best is None or took < best[0]:
                best = took, index, self.workspace
        self.index, self.workspace = (None, self.graph.get_workspace_size()) if best is None else best[1:]


def _described(array, kind=None):
    """Return the shape and the steps of an array, which has two dimensions of elements or more."""
    size, shape = array.itemsize, array.shape
    steps = tuple([step // size for step in array.strides])
    if array.ndim == 3:  # signals are images of one row
        return (*shape[:2], 1, shape[2]), (*steps[:2], steps[2] * shape[2], steps[2]), kind
    return shape, steps, kind


def _run(xp, key, inputs, outputs, make, exact):
    """Run the graph of a key, made by `make` at its first use; False where cuDNN does not serve it."""
    chosen = switches()
    if chosen is None or inputs[0].dtype.name not in TYPES:
        return False
    module, _ = chosen.library()
    device, handle = _handle(xp, module)
    arrays = [*inputs, *outputs]
    layout = tuple([(array.shape, array.strides) for array in arrays])
    key = (*key, inputs[0].dtype, layout, device, exact, chosen.benchmark, chosen.deterministic)
    graph = _graphs.get(key)
    if graph is None:
        if len(_graphs) >= MOST:
            _graphs.clear()
        try:
            graph = Graph(
                xp, module, handle, [_described(array) for array in inputs], inputs[0].dtype.name,
                functools.partial(make, module, [_described(array) for array in outputs]), exact, chosen.deterministic,
                chosen.benchmark,
            )  # fmt: skip
            if chosen.benchmark and not xp.cuda.get_current_stream().is_capturing():  # where nothing can be timed
                graph.choose(xp, module, handle, arrays, chosen.benchmark_limit)
        except (module.cudnnGraphNotSupportedError, RuntimeError, ValueError):
            graph = False
        _graphs[key] = graph
    if graph:
        graph(xp, handle, arrays)
    return bool(graph)


def _numbers(values, other):
    return [*[other] * (2 - len(values)), *values]


def convolve(xp, kind, geometry, inputs, out):
    """Set `out` to a convolution: "fprop" of image and weight, "dgrad" of loss and weight, "wgrad" of image and loss.

    False where cuDNN does not serve it.
    """

    def make(module, outputs, graph, first, second):
        names = {"fprop": ("image", "weight"), "dgrad": ("loss", "filter"), "wgrad": ("image", "loss")}[kind]
        padding = _numbers(geometry.padding, 0)
        result = getattr(graph, f"conv_{kind}")(
            **dict(zip(names, (first, second))), pre_padding=padding, post_padding=padding,
            stride=_numbers(geometry.stride, 1), dilation=_numbers(geometry.dilation, 1),
        )  # fmt: skip
        return list(zip([result], outputs))

    exact = inputs[0].dtype.itemsize == 4 and not plugrad.backends.cudnn.allow_tf32
    return _run(xp, (kind, geometry), inputs, [out], make, exact)


def attend(xp, query, key, value, result, sums, is_causal, scale):
    """Set the result of attention of four dimensions, and the logarithms of sums, which are bits of float32.

    False where cuDNN does not serve it: single precision, say.
    """
    if query.itemsize != 2:
        return False

    def make(module, outputs, graph, *inputs):
        (out, steps, _), (size, logs, _) = outputs
        results = graph.sdpa(
            **dict(zip("qkv", inputs)), is_inference=False, attn_scale=scale, use_causal_mask=bool(is_causal)
        )
        return list(zip(results, [(out, steps, None), (size, logs, module.data_type.FLOAT)]))

    return _run(xp, ("sdpa", bool(is_causal), scale), [query, key, value], [result, sums], make, False)


def attend_grad(xp, inputs, grads, is_causal, scale):
    """Set the gradients of query, key and value; `inputs` are these, the result, its gradient and the sums.

    False where cuDNN does not serve it.
    """
    if inputs[0].itemsize != 2:
        return False

    def make(module, outputs, graph, *tensors):
        tensors[5].set_data_type(module.data_type.FLOAT)
        results = graph.sdpa_backward(
            **dict(zip(("q", "k", "v", "o", "dO", "stats"), tensors)), attn_scale=scale,
            use_causal_mask=bool(is_causal), use_deterministic_algorithm=switches().deterministic,
        )  # fmt: skip
        return list(zip(results, outputs))

    return _run(xp, ("sdpa_backward", bool(is_causal), scale), list(inputs), grads, make, False)
