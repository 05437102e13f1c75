"""Where the boxes of a graph stand: layers from top to bottom, and few crossings within these.

The layered drawing of Sugiyama, Tagawa and Toda, Methods for Visual Understanding of Hierarchical System Structures
(1981): layers by longest paths, order by barycentres, and places by the mean of the neighbours, pushed apart.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict

WIDTH_OF_LETTER, HEIGHT_OF_LINE, GAP, GAP_OF_LAYERS, BEND = 6.7, 14.0, 18.0, 34.0, 10.0
REACH = 8  # layers that arrows from a variable may go down before it is drawn again


def size(box):
    """Return the width and height of a box in pixels."""
    return max(len(line) for line in box.lines) * WIDTH_OF_LETTER + 16, len(box.lines) * HEIGHT_OF_LINE + 10


class Placed:
    """Boxes with their places: `corners` {key: (x, y, width, height)}, `paths` of points for arrows, the whole size."""

    def __init__(self, tape):
        self.boxes, self.arrows = {box.key: box for box in tape.boxes}, tape.arrows
        self._layered()
        self._repeated()
        self.sizes = {key: size(box) for key, box in self.boxes.items()}
        self.layers = self._layered()
        self.chains = self._bends()
        self._ordered()
        self.places = self._pushed_apart()
        self._cornered()

    def _repeated(self):
        """Draw a variable again for functions far below those that used it before: a shared weight, in a loop."""
        leads = {b for _, b in self.arrows}
        users = defaultdict(set)
        for a, b in self.arrows:
            if a not in leads:
                users[a].add(b)
        moved = {}
        for leaf, functions in users.items():
            key, first = leaf, None
            for function in sorted(functions, key=self.layer.get):
                first = self.layer[function] if first is None else first
                if self.layer[function] - first > REACH:
                    key, first = ("again", leaf, function), self.layer[function]
                    self.boxes[key] = dataclasses.replace(self.boxes[leaf], key=key, title="drawn again", again=True)
                moved[leaf, function] = key, function
        copies = [key for key in self.boxes if isinstance(key, tuple)]
        self.boxes = {key: self.boxes[key] for key in (*copies, *self.boxes)}
        self.arrows = [moved.get(arrow, arrow) for arrow in self.arrows]

    def _layered(self):
        """Put each box one layer below the lowest of what leads to it; what nothing leads to right above its user."""
        before, after = defaultdict(list), defaultdict(list)
        for a, b in self.arrows:
            before[b].append(a)
            after[a].append(b)
        self.layer = {}
        for key in self.boxes:  # arrows lead forward in this order
            self.layer[key] = 1 + max([self.layer[a] for a in before[key]], default=-1)
        for key in reversed(self.boxes):
            if not before[key] and after[key]:
                self.layer[key] = min(self.layer[b] for b in after[key]) - 1
        layers = [[] for _ in range(1 + max(self.layer.values(), default=-1))]
        for key in self.boxes:
            layers[self.layer[key]].append(key)
        return layers

    def _bends(self):
        """Give arrows over several layers a bend in each of these; return for every arrow the keys along it."""
        chains = []
        for number, (a, b) in enumerate(self.arrows):
            chain = [a]
            for layer in range(self.layer[a] + 1, self.layer[b]):
                bend = ("bend", number, layer)
                self.sizes[bend] = BEND, 0.0
                self.layers[layer].append(bend)
                chain.append(bend)
            chains.append([*chain, b])
        self.above, self.below = defaultdict(list), defaultdict(list)
        for chain in chains:
            for a, b in zip(chain, chain[1:]):
                self.below[a].append(b)
                self.above[b].append(a)
        return chains

    def _ordered(self):
        """Order each layer by the mean place of its neighbours in the one before, down and up in turns."""
        for turn in range(8):
            down = turn % 2 == 0
            neighbours = self.above if down else self.below
            rank = {key: place for layer in self.layers for place, key in enumerate(layer)}
            for layer in self.layers if down else reversed(self.layers):
                layer.sort(key=lambda key: _mean([rank[other] for other in neighbours[key]], rank[key]))
                rank.update({key: place for place, key in enumerate(layer)})

    def _pushed_apart(self):
        """Return the x of every box's middle: where its neighbours are, as far as those beside it leave room."""
        x = {}
        for layer in self.layers:
            edge = 0.0
            for key in layer:
                x[key] = edge + self.sizes[key][0] / 2
                edge += self.sizes[key][0] + GAP
        for turn in range(12):
            neighbours = self.above if turn % 2 else self.below
            for layer in self.layers if turn % 2 else reversed(self.layers):
                wanted = [_mean([x[other] for other in neighbours[key]], x[key]) for key in layer]
                x.update(zip(layer, self._apart(layer, wanted)))
        return x

    def _apart(self, layer, wanted):
        """Return places near the wanted ones, in their order and without overlaps: groups move as one."""
        widths = [self.sizes[key][0] for key in layer]
        offsets, total = [], 0.0  # of each middle from the first one's, side by side
        for i, width in enumerate(widths):
            total += 0 if i == 0 else (widths[i - 1] + width) / 2 + GAP
            offsets.append(total)
        groups = []  # (sum of wanted starts, count)
        for place, offset in zip(wanted, offsets):
            groups.append([place - offset, 1])
            while len(groups) > 1 and groups[-2][0] / groups[-2][1] > groups[-1][0] / groups[-1][1]:
                start, count = groups.pop()
                groups[-1][0] += start
                groups[-1][1] += count
        starts = [start / count for start, count in groups for _ in range(count)]
        return [start + offset for start, offset in zip(starts, offsets)]

    def _cornered(self):
        left = min([x - self.sizes[key][0] / 2 for key, x in self.places.items()], default=0.0) - GAP
        self.width = max([x + self.sizes[key][0] / 2 for key, x in self.places.items()], default=0.0) + GAP - left
        self.corners, self.middles, y = {}, {}, GAP
        for layer in self.layers:
            height = max(self.sizes[key][1] for key in layer)
            for key in layer:
                width, own = self.sizes[key]
                self.middles[key] = self.places[key] - left, y + height / 2
                if key in self.boxes:
                    self.corners[key] = self.places[key] - left - width / 2, y + (height - own) / 2, width, own
            y += height + GAP_OF_LAYERS
        self.height = y - GAP_OF_LAYERS + GAP

    def paths(self):
        """Yield for each arrow the points that it goes through, from one box's lower edge to another's upper one."""
        for chain in self.chains:
            points = [self.middles[key] for key in chain]
            first, last = self.corners[chain[0]], self.corners[chain[-1]]
            points[0] = points[0][0], first[1] + first[3]
            points[-1] = points[-1][0], last[1]
            yield points


def _mean(values, otherwise):
    return sum(values) / len(values) if values else otherwise
