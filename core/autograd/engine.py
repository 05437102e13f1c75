"""The walk backward over the recorded graph: `Walk` on raw arrays, and `CarefulWalk` on Tensors or to some inputs only.

A walk knows nothing of mathematics: nodes pull gradients through their formulas. Hooks, what becomes of the gradients
of leaves, and who owns a gradient's memory, are in `hooks`, `leaves` and `accumulate` beside this module. Another kind
of walk, such as `plugrad.autograd.nan_guard` has, imports all that it is made of from here.
"""

from __future__ import annotations

import heapq

from plugrad.autograd.fit import fit
from plugrad.autograd.hooks import run_after, run_before, run_pre
from plugrad.autograd.leaves import finish_leaves
from plugrad.dispatch.formulas import F as tensor_ops
from plugrad.dispatch.formulas import array_ops
from plugrad.graph import rare as words
from plugrad.graph import versions
from plugrad.graph.nodes import Outputs
from plugrad.graph.saved import check_saved


class Walk:
    """The plain walk: it takes the youngest node that is ready, and accumulates the gradients of leaves.

    Edges lead to older nodes only, so a walk needs no recursion. It counts beforehand how many gradients an edge will
    get (`uses`), but only once there is more than one way to continue. `run` pulls gradients through plain nodes
    itself, and leaves nodes with hooks to `pull_hooked`. Another walk changes what it does by overriding that, `pull`,
    `formulas` or `finish`.
    """

    plain = True  # whether `run` itself does what `pull` does
    on_tensors = False  # whether gradients are Tensors and formulas run on those

    def __init__(self, retain: bool):
        self.retain = retain  # whether saved values are kept
        self.pending: dict = {}  # edge -> the gradients that it got so far, while it will get more, or is not current
        self.owned: set = set()  # edges whose pending gradient is a sum that this walk made: it is added to in place
        self.ready: list = []  # heap of (-seq, node): nodes beside the current one that will get no more gradients

    def run(self, roots, uses=None) -> None:
        """Walk backward from `roots`, pairs (edge, gradient)."""
        edges, grads = zip(*roots) if roots else ((), ())
        retain, pending, owned, ready, leaves = self.retain, self.pending, self.owned, self.ready, []
        plain, pull, pull_hooked, finish = self.plain, self.pull, self.pull_hooked, self.finish
        F = array_type = None
        while True:
            node = None
            if len(grads) == 1:  # often there is only one way to continue
                edge, g = edges[0], grads[0]
                if g is not None and edge.edges and (uses is None or uses[edge] == 1 and edge not in pending):
                    if not ready or -ready[0][0] < edge.seq:
                        node = edge
            if node is None:  # hand the gradients on, then take the youngest of the nodes that are ready
                if uses is None:
                    uses = count_uses(edges)
                g = None
                for edge, grad in zip(edges, grads):
                    left = uses[edge]
                    if not left:
                        continue
                    if pending and edge in pending:
                        before = pending.pop(edge)
                        if grad is None:
                            grad = before
                        elif edge in owned:
                            before += grad
                            grad = before
                        else:
                            grad = before + grad
                            if not self.on_tensors:
                                owned.add(edge)
                    if left != 1:
                        uses[edge] = left - 1
                        if grad is not None:
                            pending[edge] = grad
                    elif not edge.edges:
                        leaves += (edge, grad)
                    elif node is None:
                        node, g = edge, grad
                    else:
                        if grad is not None:
                            pending[edge] = grad
                        heapq.heappush(ready, (-edge.seq, edge))
                if leaves:
                    grads = grad = before = None  # no references but that of `leaves`: see `accumulate.own`
                    finish(leaves)
                if ready and (node is None or -ready[0][0] > node.seq):
                    if node is not None:
                        heapq.heappush(ready, (-node.seq, node))
                        if g is not None:
                            pending[node] = g
                    node = heapq.heappop(ready)[1]
                    g = pending.pop(node, None)
                if node is None:
                    return
            edges = node.edges
            if node.rare is not None:
                grads = pull_hooked(node, g)
                continue
            if not plain or g is None:
                grads = pull(node, g)
                continue
            saved = node.saved
            if saved is None or versions.last_write > node.seq:
                check_saved(node)
            if type(g) is not array_type:
                F, array_type = array_ops(g), type(g) if type(g) is not Outputs else None
            grads = node.pull(F, g, saved, retain)
            if node.fit is not None:
                grads = fit(F, node, grads)

    def pull_hooked(self, node, g):
        """Return the gradients of the edges of a node with hooks, which run before and after."""
        rare = node.rare
        try:
            g = run_before(rare, g, self.on_tensors)
            if not self.goes_on(node, g):
                return ()
            g = run_pre(node, rare, g, self.on_tensors)
            grads = self.pull(node, g)
            return grads if g is None or not grads else run_after(node, rare, grads, g, self.on_tensors)
        except Exception as error:
            words.explain(error, node)
            raise

    def goes_on(self, node, g) -> bool:
        """Whether the walk goes on through a node, whose gradient is g."""
        return True

    def pull(self, node, g):
        """Return the gradients of a node's edges; an empty tuple where the walk does not go on."""
        if g is None:
            g = node.missing()
            if g is None:
                return (None,) * len(node.edges)
        if node.saved is None or versions.last_write > node.seq:
            check_saved(node)
        if self.on_tensors:
            F, saved = tensor_ops, node.tensors()
        else:
            F, saved = array_ops(g), node.saved if node.rare is None else node.values()
        grads = self.formulas(F, node, g, saved)
        return grads if node.fit is None else fit(F, node, grads)

    def formulas(self, F, node, g, saved):
        """Return what a node's formulas say."""
        return node.pull(F, g, saved, self.retain)

    def finish(self, leaves: list) -> None:
        """Accumulate the complete gradients of leaves, [leaf, gradient, leaf, gradient, ...], and empty the list."""
        finish_leaves(leaves, self.on_tensors)


def count_uses(edges) -> dict:
    """Return how many gradients each edge will get, if the given edges get one each time that they occur."""
    uses: dict = {None: 0}
    stack = [edges]
    while stack:
        for edge in stack.pop():
            if edge in uses:
                uses[edge] += 1
            else:
                uses[edge] = 1
                if edge.edges:
                    stack.append(edge.edges)
    uses[None] = 0
    return uses


class CarefulWalk(Walk):
    """A walk on Tensors, so that it can be recorded itself, or to `targets` only, or both.

    `targets` is a dict from edges (nodes or leaves) to whether their gradients accumulate, if they are leaves; the
    others are `captured`. None stands for all leaves.
    """

    plain = False

    def __init__(self, retain: bool, on_tensors: bool, targets: dict | None):
        super().__init__(retain)
        self.on_tensors, self.targets = on_tensors, targets
        self.captured: dict = {}  # edge -> gradient
        self.leads: dict = {}  # edges on the way to a target -> whether formulas must run there, or it is only a target

    def run(self, roots, uses=None) -> None:
        if self.targets is not None:
            uses = self._count_uses([edge for edge, _ in roots])
            for edge, g in roots if len(roots) == 1 else ():  # of several that lead to no target PyTorch runs no hooks
                rare = edge.rare if edge.edges else edge.__dict__.get("_hooks")
                if rare is not None and edge not in self.leads:
                    run_before(rare, g, self.on_tensors)
        super().run(roots, uses)

    def _count_uses(self, edges) -> dict:
        """Return what `count_uses` does, with 0 for what does not lead to a target."""
        uses = count_uses(edges)
        del uses[None]
        self.leads = leads = {edge: self.targets[edge] for edge in uses if edge in self.targets}
        # Edges lead to older nodes only, so from the oldest to the youngest every node's edges are decided first.
        for node in sorted((edge for edge in uses if edge.edges), key=lambda node: node.seq):
            if any(edge in leads for edge in node.edges):
                leads[node] = True
        uses = dict.fromkeys(uses, 0)
        uses[None] = 0
        for many in (edges, *(node.edges for node, runs in leads.items() if runs)):
            for edge in many:
                if edge in leads:
                    uses[edge] += 1
        return uses

    def goes_on(self, node, g):
        if self.targets is None:
            return True
        if node in self.targets:
            self.captured[node] = g
        return self.leads[node]

    def pull(self, node, g):
        if node.rare is None and not self.goes_on(node, g):  # hooks stand between the two: see `pull_hooked`
            return ()
        grads = super().pull(node, g)
        if self.targets is None or node.rare is None:
            return grads
        return [grad if edge in self.leads else None for edge, grad in zip(node.edges, grads)]

    def formulas(self, F, node, g, saved):
        if self.targets is not None and node.narrowed:
            needed = [edge in self.leads for edge in node.edges]
            if not all(needed):
                return node.pull_some(F, g, saved, self.retain, needed)
        return super().formulas(F, node, g, saved)

    def finish(self, leaves):
        finish_leaves(leaves, self.on_tensors, self.targets, self.captured)
