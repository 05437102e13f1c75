"""The autograd engine: the walk backward over the recorded graph, and its entrances `backward` and `grad`.

The walk is iterative and takes the youngest ready node first. It knows nothing of mathematics: nodes pull gradients
through formulas, on raw arrays or, when the walk itself is recorded, on Tensors.
"""

from __future__ import annotations

import heapq
import warnings

import numpy

from plugrad.autograd import nan_guard
from plugrad.autograd.accumulate import finish_leaf, run_after, run_before
from plugrad.graph import nodes
from plugrad.graph.modes import (
    LEAF,
    count_special,
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    mode,
    no_grad,
    save_on_cpu,
    saved_tensors_hooks,
    set_detect_anomaly,
    set_grad_enabled,
    tick,
)
from plugrad.graph.nodes import (
    FREED,
    AccumulateGrad,
    Node,
    Outputs,
    OutputSlot,
    Packed,
    Rare,
    accumulate_node,
    add_tensor_hook,
    annotate,
    as_tensor,
    hooks_of,
    stale_error,
    touch,
    version,
)
from plugrad.tensor import shared_memory

__all__ = [
    "AccumulateGrad", "FREED", "LEAF", "Node", "OutputSlot", "Outputs", "Packed", "Rare", "accumulate_node",
    "add_tensor_hook", "annotate", "as_tensor", "backward", "count_special", "detect_anomaly", "enable_grad", "grad",
    "hooks_of", "inference_mode", "is_anomaly_enabled", "is_grad_enabled", "is_inference_mode_enabled", "mode",
    "no_grad", "save_on_cpu", "saved_tensors_hooks", "set_detect_anomaly", "set_grad_enabled", "stale_error", "tick",
    "touch", "version",
]  # fmt: skip

# The walk makes Tensors, but their module imports this one: it sets the two names.
Tensor = make = None


def run(roots, *, retain, create, targets=None, trial=None):
    """Walk backward from `roots`, pairs (edge, gradient).

    Gradients are raw arrays, or with `create` Tensors, so that the walk itself is recorded. Without `targets`
    gradients accumulate in the leaves; else `targets`, edges (nodes or leaf tensors), are all that is computed, and
    a dict from edge to gradient is returned. A `trial` (see `plugrad.autograd.nan_guard`) is told what the walk does.
    """
    from plugrad.dispatch import call, op

    # From a single root the walk goes as long as there is but one way, without counting.
    uses, needed = None, None
    if targets is not None or len(roots) != 1 or not roots[0][0].edges:
        uses, needed = _count_uses([edge for edge, _ in roots], targets)
    pending: dict = {}  # edge -> sum of the gradients that arrived, while more are to come
    owned: set = set()  # edges whose pending gradient is a sum that this walk made and may add to in place
    heap: list = []  # nodes that are ready beside the current one, the youngest first
    captured: dict = {} if trial is None else trial.captured
    namespace_of, fit = op.raw_namespace, call.fit
    safe = mode.zero_safe
    plain, F, array_type = not create and targets is None and (trial is not None or not safe), None, None
    arrive, held, limit, log = finish_leaf, 0, nan_guard.HELD, None
    if trial is not None:
        arrive, log = trial.leaf, trial.log.append

        def hold(elements):
            nonlocal held
            held += elements

        trial.hold = hold
    push, pop, pushpop = heapq.heappush, heapq.heappop, heapq.heappushpop

    def add(edge, g):
        """Add to what is pending for an edge: borrow the first gradient, own the sum."""
        have = pending.get(edge)
        if have is None:
            pending[edge] = g
        elif edge in owned:
            have += g
            pending[edge] = have
        else:
            pending[edge] = have + g
            if not create:
                owned.add(edge)

    def pull_rare(node, g):
        """Return edges and gradients of a node with hooks, of a recorded walk, or on the way to targets."""
        edges, rare = node.edges, node.rare
        if rare is not None and (rare.before or rare.retained or rare.pre):
            g = run_before(node, rare, g, create)
        if targets is not None:
            if node in targets:
                captured[node] = g
            if not needed[node]:
                return (), ()
        if g is None:
            return edges, (None,) * len(edges)
        saved = node.saved
        if saved is None or nodes.last_touch > node.seq:
            _check_saved(node, saved)
        if log is not None:
            log(node)
            log(saved)
            trial.arrived = g
        if rare is not None:
            mode.current = node
            saved = node.values()
        arrays = saved
        if create:
            saved = node.tensors()
        names = op.F if create else namespace_of(g)
        grads = node.pull(names, g, saved, retain)
        looks = safe and node.scales and (trial is None or rare is not None or not node.pure)
        if looks and not (create and g._type.symbolic):
            grads = nan_guard.zeroed(names, namespace_of(g._data) if create else names, node, g, arrays, grads)
        if node.fit is not None:
            grads = fit(names, node, grads)
        return edges, grads if rare is None else run_after(node, rare, grads, g, create)

    for edge, g in roots:
        if needed is None or edge in needed:
            add(edge, g)
    for edge in dict.fromkeys(edge for edge, _ in roots):
        if uses is not None and (uses[edge] or (needed is not None and edge not in needed)):
            continue
        if edge.edges:
            push(heap, (-edge.seq, edge))
        else:
            arrive(edge, pending.pop(edge), create, targets, captured, 0)
    node = g = None
    if heap:
        node = pop(heap)[1]
        g = pending.pop(node, None)
    try:
        while node is not None:
            edges = node.edges
            if log is not None and (node.rare is not None or not node.pure or held > limit):
                grads = grad = None
                held = trial.pause(node, g, pending, heap, owned, held)
                if held is None:
                    break
                edges, grads = pull_rare(node, g)
            elif plain and node.rare is None and g is not None:
                saved = node.saved
                if saved is None or nodes.last_touch > node.seq:
                    _check_saved(node, saved)
                if log is not None:
                    log(node)
                    log(saved)
                    held += g.size
                    trial.arrived = g
                if type(g) is not array_type:
                    array_type = type(g)
                    F = namespace_of(g)
                grads = node.pull(F, g, saved, retain)
                if node.fit is not None:
                    grads = fit(F, node, grads)
            else:
                edges, grads = pull_rare(node, g)
            if len(edges) == 1 and targets is None and not pending:
                # A chain: the next node is the only one, and nothing else is known of it.
                edge = edges[0]
                grad = grads[0]
                if grad is not None and edge.edges and (uses is None or uses[edge] == 1):
                    if not heap or -heap[0][0] < edge.seq:
                        node, g = edge, grad
                        continue
            if uses is None:
                uses, _ = _count_uses([node], None)
            node = None
            for edge, grad in zip(edges, grads):
                if edge is None or (needed is not None and edge not in needed):
                    continue
                left = uses[edge]
                if left != 1:
                    uses[edge] = left - 1
                    if grad is not None:
                        add(edge, grad)
                    continue
                holders = 3  # `grads`, `zip` and `grad`
                if pending and edge in pending:
                    if grad is not None:
                        add(edge, grad)
                    grad = pending.pop(edge)
                    holders = 1
                if not edge.edges:
                    arrive(edge, grad, create, targets, captured, holders)
                elif node is None:
                    node, g = edge, grad
                else:
                    if grad is not None:
                        pending[edge] = grad
                    push(heap, (-edge.seq, edge))
            if heap:
                if node is None:
                    node = pop(heap)[1]
                    g = pending.pop(node, None)
                elif -heap[0][0] > node.seq:
                    if g is not None:
                        pending[node] = g
                    node = pushpop(heap, (-node.seq, node))[1]
                    g = pending.pop(node, None)
    except Exception as error:
        if trial is None or trial.roots is None:
            _explain(error, node)
            raise
        trial.failed = True  # with NaN on its way or not: the repetition will tell
    return captured


def _check_saved(node, saved) -> None:
    """Raise RuntimeError if what a node saved is gone, or was written in place since."""
    if saved is None:
        raise RuntimeError(FREED)
    stale_error(node, saved)


def _count_uses(roots, targets):
    """Return how many gradients each edge will get, and which edges lead to a target (None: all count)."""
    uses: dict = dict.fromkeys(roots, 0)
    uses[None] = 0
    stack = [root for root in uses if root is not None]
    push, pop = stack.append, stack.pop
    while stack:
        for edge in pop().edges:
            if edge in uses:
                uses[edge] += 1
            else:
                uses[edge] = 1
                push(edge)
    if targets is None:
        return uses, None
    # Edges lead to older nodes only, so going from the oldest to the youngest every node's edges are decided first.
    del uses[None]
    needed = dict.fromkeys((edge for edge in uses if edge in targets), False)
    for node in sorted((edge for edge in uses if edge.edges), key=lambda node: node.seq):
        if any(edge in needed for edge in node.edges):
            needed[node] = True  # its formulas must run
    uses = dict.fromkeys(uses, 0)
    for node, runs in needed.items():
        if runs:
            for edge in node.edges:
                if edge in needed:
                    uses[edge] += 1
    return uses, needed


def _explain(error: Exception, node) -> None:
    """Add to an error from a node's backward the stack of the forward call that made the node."""
    stack = getattr(node.rare, "stack", None) if isinstance(node, Node) else None
    if stack is not None and not getattr(error, "_explained", False):
        error._explained = True
        warnings.warn(
            f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{''.join(stack)}",
            stacklevel=4,
        )
        error.add_note(f"The forward call of {node.name()} was:\n{''.join(stack)}")


def _walk(tensors, gradients, *, retain, create, targets=None):
    """Check the roots of a walk, run it, and return what it captured."""
    roots, tensorial = [], create
    for tensor, gradient in zip(tensors, gradients):
        edge = tensor._live_edge()
        if edge is None:
            raise RuntimeError(
                "element 0 of tensors does not require grad and does not have a grad_fn: call requires_grad_() on "
                "the inputs before the computation, and check that it did not run under no_grad() or on detach()ed "
                "tensors"
            )
        if gradient is None:
            if tensor._data.size != 1:
                raise RuntimeError(
                    "grad can be implicitly created only for scalar outputs; reduce the output first (.sum(), "
                    f".mean()) or pass a gradient of its shape {list(tensor.shape)}"
                )
            if not tensor.dtype.is_floating_point:
                raise RuntimeError(
                    "grad can be implicitly created only for real scalar outputs but got " + repr(tensor.dtype)
                )
            kind = tensor._type.plain
            gradient = make(kind.ones(tensor._data.shape), kind)
        elif not isinstance(gradient, Tensor):
            raise TypeError(
                f"gradients can be either Tensors or None, but got {type(gradient).__name__}; write torch.tensor(...)"
            )
        elif gradient.shape != tensor.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{len(roots)}] has a shape of {gradient.shape} and output"
                f"[{len(roots)}] has a shape of {tensor.shape}."
            )
        elif gradient._type.plain is not tensor._type.plain:
            if gradient.dtype.is_complex and not tensor.dtype.is_complex:
                raise RuntimeError(
                    f"For complex Tensors, both grad_output and output are required to have the same dtype: got "
                    f"{gradient.dtype} and {tensor.dtype}"
                )
            gradient = gradient.to(tensor.device, tensor.dtype)
        # Symbolic arrays know no operators: formulas run on tensors then, recorded or not.
        tensorial = create or tensor._type.symbolic or bool(mode.dispatch_modes)
        roots.append((tensor if edge is LEAF else edge, gradient if tensorial else gradient._data))
    previous = mode.grad, mode.current
    mode.grad = create
    if shared_memory._seen:
        shared_memory.settle()
    try:
        with numpy.errstate(all="ignore"):
            if mode.zero_safe and not (tensorial and _observed(roots)):
                return nan_guard.walk(run, finish_leaf, roots, retain=retain, create=tensorial, targets=targets)
            return run(roots, retain=retain, create=tensorial, targets=targets)
    finally:
        mode.grad, mode.current = previous


def _observed(roots) -> bool:
    """Whether somebody sees the ops of a recorded walk, so that they must run once."""
    watched = mode.dispatch_modes or mode.function_modes or mode.op_hooks
    return bool(watched) or any(g._type.symbolic for _, g in roots)


def _tuple(value):
    if value is None:
        return ()
    if isinstance(value, (tuple, list)):
        return tuple(value)
    return (value,)


def backward(
    tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None, *, report=None
):
    """Accumulate the gradient of `tensors` in the leaves that they depend on.

    `grad_tensors` are the gradients of a scalar function of `tensors`; None for scalars. With `inputs` only these
    leaves are filled. With `report`, a Module or a dict of tensors by name, a warning lists those that receive no
    gradient, and where the path to each ends (see `explain_missing`).

    >>> import plugrad as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> torch.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    """
    tensors = _tuple(tensors)
    grads = _tuple(grad_tensors if grad_variables is None else grad_variables) or (None,) * len(tensors)
    if len(grads) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    retain = create_graph if retain_graph is None else retain_graph
    if report is not None:
        from plugrad.autograd import missing_grads

        missing_grads.warn_missing(tensors, report)
    targets = None
    if inputs is not None:
        inputs = _tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        targets = {}
        for tensor in inputs:
            edge = _target(tensor)
            targets[edge] = True
    captured = _walk(tensors, grads, retain=retain, create=create_graph, targets=targets)
    if targets:
        for tensor in inputs:
            if tensor._edge is not LEAF and captured.get(tensor._edge) is not None:
                g = as_tensor(captured[tensor._edge])
                tensor._grad = g if tensor.grad is None else tensor.grad + g


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """Return the gradients of `outputs` with respect to `inputs`, leaving every `.grad` alone.

    With `create_graph` the gradients can be differentiated again. An input that the outputs do not depend on is an
    error unless `allow_unused` (None for it) or `materialize_grads` (zeros for it).

    >>> import plugrad as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> (g,) = torch.autograd.grad(x**3, x, create_graph=True)
    >>> g.item(), torch.autograd.grad(g, x)[0].item()
    (27.0, 18.0)
    """
    if is_grads_batched:
        raise NotImplementedError("is_grads_batched=True is not supported: loop over the rows of grad_outputs instead")
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    outputs, wanted = _tuple(outputs), _tuple(inputs)
    if not wanted:
        raise ValueError("grad requires non-empty inputs.")
    grads = _tuple(grad_outputs) or (None,) * len(outputs)
    if len(grads) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} outputs and {len(grads)} grad_outputs")
    edges = [_target(tensor) for tensor in wanted]
    retain = create_graph if retain_graph is None else retain_graph
    captured = _walk(outputs, grads, retain=retain, create=create_graph, targets=dict.fromkeys(edges, False))
    results = []
    for position, (tensor, edge) in enumerate(zip(wanted, edges)):
        g = captured.get(edge)
        if g is None:
            if materialize_grads:
                kind = tensor._type
                g = make(kind.zeros(tensor._data.shape), kind)
            elif not allow_unused:
                raise RuntimeError(
                    f"The differentiated Tensor at index {position} appears to not have been used in the graph. Set "
                    f"allow_unused=True if this is the desired behavior. (Its shape is {list(tensor.shape)}.)"
                )
        elif not create_graph:
            g = as_tensor(g)
            if any(g._data is other._data for other in results if other is not None):
                g = make(g._data.copy(), g._type.plain)
        results.append(g)
    return tuple(results)


def _target(tensor):
    if not isinstance(tensor, Tensor):
        raise TypeError(f"inputs must be Tensors, got {type(tensor).__name__}")
    edge = tensor._live_edge()
    if edge is None:
        raise RuntimeError(
            "One of the differentiated Tensors does not require grad: call requires_grad_() on it before the "
            "computation"
        )
    return tensor if edge is LEAF else edge
