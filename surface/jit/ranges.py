"""How large integers of a function can become, so that only those are made to wrap around at 64 bits that may."""

from __future__ import annotations

STEPS = 1 << 53  # no program takes so many: at a nanosecond each they last for a hundred days
LIMIT = 1 << 63
DEPTH = 600  # how deep lists are nested in a tree at most
_RING = ("+", "-", "*")  # of whose operators only the last one has to wrap around: what they give is the same then


class Ranges:
    """Bounds of the integers that expressions of a function have.

    A counter, whose every assignment is a constant, or adds one to it, is bounded by the time that a program takes; and
    so is what a loop over a range begins with a constant.
    """

    def __init__(self, tree):
        self.starts: dict = {one[0]: None for one in tree["arguments"]}  # the largest constant, None without a bound
        self.steps: dict = {}
        self._note(tree["body"])
        bounds = {name: start for name, start in self.starts.items() if start is not None}
        self.bounds = {name: start + STEPS * self.steps.get(name, 0) for name, start in bounds.items()}

    def _note(self, tree, depth=0):
        """Look at a statement, an expression, or a list of such."""
        if depth > DEPTH:
            raise ValueError("it is nested too deeply")
        if type(tree) is dict:
            tree = list(tree.values())
        if not isinstance(tree, (list, tuple)) or not tree:
            return
        for one in tree:
            self._note(one, depth + 1)
        kind, count = tree[0], len(tree)
        if kind == "=" and count == 4:
            self._assigned(tree[2], tree[3])
        elif kind == "aug" and count == 6 and tree[5] == "int":
            self._assigned(tree[2], ["binary", tree[3], tree[2], tree[4], "int"])
        elif kind == "aug" and count > 2:
            self._unbounded(tree[2])
        elif kind == "for" and count == 5:
            self._assigned(tree[2], tree[3], is_loop=True)
        elif kind == "comp" and count > 2:
            self._unbounded(tree[2])
        elif kind == "with" and count == 4:
            for mode in tree[2]:
                self._unbounded(mode[-1] if mode[0] == "object" else None)

    def _unbounded(self, target):
        """Note that names in a target may have any value."""
        if isinstance(target, (list, tuple)) and target:
            if target[0] == "name":
                self.starts[target[1]] = None
            for one in target[1:]:
                self._unbounded(one)

    def _assigned(self, target, value, is_loop=False):
        start, step = (_of_range(value), 1) if is_loop else _growth(target, value)
        if target[0] != "name" or start is None:
            self._unbounded(target)
            return
        name = target[1]
        if self.starts.get(name, 0) is not None:
            self.starts[name] = max(self.starts.get(name, 0), start)
            self.steps[name] = max(self.steps.get(name, 0), step)

    def bound(self, tree):
        """Return what an expression of integers never goes beyond, with either sign, or None if that is not known."""
        kind = tree[0]
        if kind == "const":
            return abs(tree[1]) if type(tree[1]) is int else None
        if kind == "name":
            return self.bounds.get(tree[1])
        if kind != "binary" or len(tree) < 4:
            return None
        if tree[1] == "%" and len(tree) == 4:
            return self.bound(tree[3])
        if tree[1] not in _RING or len(tree) != 5:
            return None
        one, other = self.bound(tree[2]), self.bound(tree[3])
        if one is None or other is None:
            return None
        both = one * other if tree[1] == "*" else one + other
        return both if both < LIMIT else None


def in_ring(tree) -> bool:
    """Whether an expression is an operator of integers after which there is no need to wrap around before another."""
    return tree[0] == "binary" and len(tree) == 5 and tree[1] in _RING and tree[4] == "int"


def _growth(target, value) -> tuple:
    """Return (a constant, by how much it grows) of an assignment of a counter; (None, 0) of another."""
    if value[0] == "const" and type(value[1]) is int and abs(value[1]) < STEPS:
        return abs(value[1]), 0
    if value[0] == "binary" and len(value) == 5 and value[1] in ("+", "-") and list(value[2]) == list(target):
        step = value[3]
        if step[0] == "const" and type(step[1]) is int and abs(step[1]) <= 1 << 8:
            return 0, abs(step[1])
    return None, 0


def _of_range(over):
    """Return where a loop over a range begins, if that is a constant and its steps are of one; else None."""
    if over[0] != "call" or over[1] != "prim.range" or len(over[2]) > 2 or over[3]:
        return None
    first = over[2][0] if len(over[2]) == 2 else ["const", 0]
    return abs(first[1]) if first[0] == "const" and type(first[1]) is int and abs(first[1]) < STEPS else None
