"""Which of equal elements come first where no order is promised, as PyTorch's CPU has them.

The kernels in C say where the algorithms are from (`native/kernels/selection.inc`, step for step the same). These run
where there are none, and only on rows in which equal elements compete. A row is a list of pairs of a key and its place,
which are compared by the key alone.
"""

from __future__ import annotations

STABLE, FIRST, FIRST_IN_ANY_ORDER, INTROSORT, RANK = range(5)  # as the kernel `order_of` numbers them


def _put_into_heap(x, hole, value) -> None:
    """Put `value` into a heap whose largest is on top, and whose place `hole` is free: down to a leaf, then up."""
    top, child, n = hole, 2 * hole + 2, len(x)
    while child < n:
        child -= x[child][0] < x[child - 1][0]
        x[hole] = x[child]
        hole, child = child, 2 * child + 2
    if child == n:
        x[hole] = x[child - 1]
        hole = child - 1
    while hole > top and x[(hole - 1) // 2][0] < value[0]:
        x[hole] = x[(hole - 1) // 2]
        hole = (hole - 1) // 2
    x[hole] = value


def _selected_by_heap(x, k):
    """The first `k` as a heap, and the others."""
    heap, others = x[:k], x[k:]
    for i in range((k - 2) // 2, -1, -1):
        _put_into_heap(heap, i, heap[i])
    for i, value in enumerate(others):
        if value[0] < heap[0][0]:
            others[i] = heap[0]
            _put_into_heap(heap, 0, value)
    return heap, others


def _sorted_by_heap(x, k):
    heap, others = _selected_by_heap(x, k)
    ordered = []
    while len(heap) > 1:
        ordered.append(heap[0])
        value = heap.pop()
        _put_into_heap(heap, 0, value)
    return (ordered + heap)[::-1] + others


def _cut_by_pivot(x) -> int:
    """Cut in two by a median of three; return where the second part begins."""
    n, middle = len(x), len(x) // 2
    a, b, c = x[1][0], x[middle][0], x[-1][0]
    if a < b:
        chosen = middle if b < c else n - 1 if a < c else 1
    else:
        chosen = 1 if a < c else n - 1 if b < c else middle
    x[0], x[chosen] = x[chosen], x[0]
    pivot, begin, end = x[0][0], 1, n - 1
    while True:
        while x[begin][0] < pivot:
            begin += 1
        while pivot < x[end][0]:
            end -= 1
        if begin >= end:
            return begin
        x[begin], x[end] = x[end], x[begin]
        begin, end = begin + 1, end - 1


def _depth(x) -> int:
    return 2 * (max(len(x), 1).bit_length() - 1)


def _introsort(x):
    """All in order; what is left to the sort at the end, which keeps equal ones in theirs, are runs of 16."""

    def cut(x, depth):
        if len(x) <= 16:
            return x
        if not depth:
            return _sorted_by_heap(x, len(x))
        at = _cut_by_pivot(x)
        return cut(x[:at], depth - 1) + cut(x[at:], depth - 1)

    return sorted(cut(x, _depth(x)), key=_key)


def _introselect(x, rank):
    """All, and at `rank` what would stand there if they were sorted, with nothing smaller behind it."""
    before, behind, depth = [], [], _depth(x)
    while len(x) > 3:
        here = rank - len(before)
        if not depth:
            x, others = _selected_by_heap(x, here + 1)
            x[0], x[here] = x[here], x[0]
            return before + x + others + behind
        depth -= 1
        at = _cut_by_pivot(x)
        if at <= here:
            before, x = before + x[:at], x[at:]
        else:
            x, behind = x[:at], x[at:] + behind
    return before + sorted(x, key=_key) + behind


def _quickselect(x, rank):
    """All, and at `rank` what would stand there if they were sorted."""

    def rising(i, j):
        if x[i][0] > x[j][0]:
            x[i], x[j] = x[j], x[i]

    left, right = 0, len(x) - 1
    while left < right - 1:
        middle, i, j = left + (right - left) // 2, left + 1, right
        x[middle], x[i] = x[i], x[middle]
        rising(i, right)
        rising(left, right)
        if x[i][0] > x[left][0]:
            x[left], x[i] = x[i], x[left]
        pivot = x[left][0]
        while True:
            i, j = i + 1, j - 1
            while x[i][0] < pivot:
                i += 1
            while x[j][0] > pivot:
                j -= 1
            if j < i:
                break
            x[i], x[j] = x[j], x[i]
        x[left], x[j] = x[j], x[left]
        left, right = i if j <= rank else left, j - 1 if j >= rank else right
    if left == right - 1:
        rising(left, right)
    return x


def _key(pair):
    return pair[0]


def _selected(keys, k, way, rank):
    """The places of the `k` elements that come first, or of the one at `rank`."""
    x = [(key, place) for place, key in enumerate(keys)]
    if way == RANK:
        x = _quickselect(x, rank)[rank:]
    elif way == INTROSORT:
        x = _introsort(x)
    elif 64 * k <= len(x):
        x = _sorted_by_heap(x, k)
    else:
        x = _introselect(x, k - 1)
        if way == FIRST:
            x = _introsort(x[: k - 1]) + x[k - 1 :]
    return [place for _, place in x[:k]]


def select_again(xp, array, order, way, falling=False, rank=0):
    """Choose again in rows with equal elements: `order` are the places of what comes first along the last dimension.

    NaN is the largest number. On a device of CuPy equal elements come in their order.
    """
    n, k = array.shape[-1], order.shape[-1]
    if xp.__name__ != "numpy" or not order.size:
        return order
    rows, order = array.reshape(-1, n), order.copy()
    if way == FIRST_IN_ANY_ORDER:
        again = range(len(rows))
    else:
        ordered = xp.sort(rows, axis=-1)
        equal = (ordered[:, 1:] == ordered[:, :-1]) | (ordered[:, :-1] != ordered[:, :-1])
        again = xp.flatnonzero(equal.any(axis=-1))
    places = order.reshape(-1, k)
    for i in again:
        keys = xp.unique(rows[i], return_inverse=True)[1]
        places[i] = _selected((-keys if falling else keys).tolist(), k, way, rank)
    return order
