"""Replacing parts of a graph that are like a pattern."""

from __future__ import annotations

import copy
from typing import NamedTuple

from plugrad import nn
from plugrad.fx._symbolic_trace import symbolic_trace
from plugrad.fx.graph import Graph
from plugrad.fx.graph_module import GraphModule
from plugrad.fx.node import Node

__all__ = ["Match", "replace_pattern"]


class Match(NamedTuple):
    """A replaced place: its last node, and {node of the pattern: node of the graph}."""

    anchor: Node
    nodes_map: dict


def _same_target(pattern: Node, node: Node) -> bool:
    if pattern.op != node.op:
        return False
    if pattern.op in ("call_module", "get_attr"):
        ours, theirs = _at(pattern), _at(node)
        return type(ours) is type(theirs) if ours is not None and theirs is not None else pattern.target == node.target
    return pattern.target == node.target


def _at(node):
    """Return what a node's module has at its target, or None."""
    place = node.graph.owning_module
    for name in node.target.split("."):
        place = getattr(place, name, None)
    return place


class _Matcher:
    """Compares the graph of a pattern, from its results upward, with what is above a node."""

    def __init__(self, pattern: Graph):
        self.pattern = [node for node in pattern.nodes if node.op != "output"]
        output = pattern.output_node().args[0]
        self.results = [output] if isinstance(output, Node) else [one for one in output if isinstance(one, Node)]
        self.placeholders = [node for node in self.pattern if node.op == "placeholder"]

    def at(self, anchor: Node):
        """Return {node of the pattern: node or value} for the place whose last result is a node; None if it differs."""
        last = max(self.results, key=self.pattern.index)
        places: dict = {}
        if not self._same(last, anchor, places):
            return None
        for result in self.results:
            if result not in places and not self._anywhere(result, anchor.graph, places):
                return None
        inner = {places[one] for one in self.pattern if one.op != "placeholder" and one in places}
        for one in self.pattern:
            node = places.get(one)
            if one.op == "placeholder" or one in self.results:
                continue
            if not isinstance(node, Node) or any(user not in inner for user in node.users):
                return None  # its value is needed outside
        return places if all(one in places for one in self.placeholders) else None

    def _anywhere(self, result, graph, places) -> bool:
        for node in graph.nodes:
            trial = dict(places)
            if self._same(result, node, trial):
                places.update(trial)
                return True
        return False

    def _same(self, one, other, places) -> bool:
        if isinstance(one, Node):
            if one in places:
                return places[one] is other or (one.op == "placeholder" and not isinstance(other, Node)
                                                and places[one] == other)  # fmt: skip
            if one.op == "placeholder":
                places[one] = other
                return True
            if not isinstance(other, Node) or not _same_target(one, other) or other in places.values():
                return False
            places[one] = other
            return self._same(list(one.args), list(other.args), places) and self._same(one.kwargs, other.kwargs, places)
        if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
            return len(one) == len(other) and all(self._same(a, b, places) for a, b in zip(one, other))
        if isinstance(one, dict) and isinstance(other, dict):
            return one.keys() == other.keys() and all(self._same(one[key], other[key], places) for key in one)
        if isinstance(one, slice) and isinstance(other, slice):
            return all(self._same(getattr(one, k), getattr(other, k), places) for k in ("start", "stop", "step"))
        return type(one) is type(other) and one == other


def _graph_of(program) -> Graph:
    if isinstance(program, Graph):
        return program
    return program.graph if isinstance(program, GraphModule) else symbolic_trace(program).graph


def replace_pattern(gm: GraphModule, pattern, replacement) -> list[Match]:
    """Replace every part of a graph that computes a pattern; return the places.

    Args:
        gm: the GraphModule, which is changed and compiled.
        pattern: function or GraphModule; what its arguments stand for may be anything.
        replacement: function or GraphModule of the same arguments.

    Parts that overlap are replaced once. A value inside of a part must not be used outside of it.

    >>> import plugrad as torch
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.neg(torch.relu(x)))
    >>> matches = torch.fx.replace_pattern(traced, lambda v: torch.relu(v), lambda v: torch.sigmoid(v))
    >>> len(matches), [node.name for node in traced.graph.nodes]
    (1, ['x', 'sigmoid', 'neg', 'output'])
    """
    graph, replacing = gm.graph, _graph_of(replacement)
    matcher = _Matcher(_graph_of(pattern))
    arguments = [node for node in replacing.nodes if node.op == "placeholder"]
    if len(arguments) != len(matcher.placeholders):
        raise AssertionError(
            f"the pattern has {len(matcher.placeholders)} arguments, and the replacement {len(arguments)}: both need "
            "the same ones"
        )
    taken: set = set()
    places = []
    for anchor in graph.nodes:
        match = matcher.at(anchor)
        if match is None:
            continue
        inner = {node for one, node in match.items() if one.op != "placeholder"}
        if not inner & taken:
            taken |= inner
            places.append((anchor, match))
    changed: dict = {}
    return_value = []
    for anchor, match in places:
        current = {one: changed.get(node, node) if isinstance(node, Node) else node for one, node in match.items()}
        values = dict(zip(arguments, [current[one] for one in matcher.placeholders], strict=True))
        _replace(graph, matcher, replacing, current, changed, values)
        return_value.append(Match(anchor, current))
    gm.recompile()
    if isinstance(replacement, nn.Module):
        _bring_attributes(gm, replacement)
    return return_value


def _replace(graph, matcher, replacing, match, changed, values) -> None:
    """Put a copy of the replacement where a match is, and take that out."""
    results = [match[one] for one in matcher.results]
    users = {user for node in results for user in node.users}
    first = next((node for node in graph.nodes if node in users), None)
    with graph.inserting_before(first if first is not None else max(results).next):
        copied = graph.graph_copy(replacing, values)
    copied = (copied,) if isinstance(copied, Node) else tuple(copied)
    if len(copied) != len(results):
        raise AssertionError(f"the pattern returns {len(results)} values, and the replacement {len(copied)}")
    for old, new in zip(results, copied):
        old.replace_all_uses_with(new)
        changed[old] = new
    for one in reversed(matcher.pattern):
        if one.op != "placeholder":
            graph.erase_node(match[one])


def _bring_attributes(gm, replacement) -> None:
    """Copy the modules, parameters and buffers that the replacement's nodes name."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _at(node) is not None:
            continue
        home, _, name = node.target.rpartition(".")
        value = copy.deepcopy(getattr(replacement.get_submodule(home), name))
        if isinstance(value, nn.Module):
            gm.add_submodule(node.target, value)
        else:
            setattr(gm.get_submodule(home), name, value)
    gm.graph.lint()
