"""L-BFGS: a quasi-Newton method on all parameters together, optionally with a line search."""

from __future__ import annotations

from itertools import accumulate

import plugrad
from plugrad import Tensor, enable_grad, no_grad
from plugrad.extend import Optimizer, collect, held_back, hookimpl


def _cubic_minimum(left, right, bounds=None):
    """Return where the cubic through two points, with their slopes, is least within bounds."""
    if left.t > right.t:
        left, right = right, left
    (x1, f1, g1), (x2, f2, g2) = left, right
    low, high = bounds or (x1, x2)
    a = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = a**2 - g1 * g2
    if not square >= 0:
        return (low + high) / 2.0
    root = square.sqrt() if isinstance(square, Tensor) else square**0.5
    return min(max(x2 - (x2 - x1) * ((g2 + root - a) / (g2 - g1 + 2 * root)), low), high)


class _Point:
    """A step length, and loss, gradient and slope along the direction there."""

    __slots__ = ("t", "loss", "gradient", "slope")

    def __init__(self, t, loss, gradient, slope):
        self.t, self.loss, self.gradient, self.slope = t, loss, gradient, slope

    def __iter__(self):
        return iter((self.t, self.loss, self.slope))


class _StrongWolfe:
    """A search for a step at which the loss falls enough and the slope is small: the strong Wolfe conditions."""

    fall, flat = 1e-4, 0.9  # how much of the slope's promise is asked of the loss; how flat the slope must be

    def __init__(self, evaluate, start, reach, tolerance, limit):
        self.evaluate, self.start, self.reach = evaluate, start, reach
        self.tolerance, self.limit = tolerance, limit
        self.count = 0  # of steps tried behind the first

    def rises(self, point) -> bool:
        return point.loss > self.start.loss + self.fall * point.t * self.start.slope

    def flattens(self, point) -> bool:
        return abs(point.slope) <= -self.flat * self.start.slope

    def run(self, t) -> tuple:
        """Return the best point, and how often the loss was evaluated; `t` is the first step to be tried."""
        bracket, done = self.bracketed(t)
        low, high = (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)
        if not done:
            low = self.narrowed(bracket, low, high)
        return bracket[low], self.count + 1

    def bracketed(self, t) -> tuple:
        """Go on until a bracket of two points holds what is looked for, or a point is it."""
        previous, point = self.start, self.evaluate(t)
        while self.count < self.limit:
            if self.rises(point) or (self.count > 1 and point.loss >= previous.loss):
                return [previous, point], False
            if self.flattens(point):
                return [point], True
            if point.slope >= 0:
                return [previous, point], False
            bounds = point.t + 0.01 * (point.t - previous.t), point.t * 10
            t = _cubic_minimum(previous, point, bounds)
            previous, point = point, self.evaluate(t)
            self.count += 1
        return [self.start, point], False

    def narrowed(self, bracket, low, high) -> int:
        """Narrow the bracket, in place; return the place of its lower point."""
        stuck = False
        while self.count < self.limit:
            ends = sorted([bracket[0].t, bracket[1].t])
            if (ends[1] - ends[0]) * self.reach < self.tolerance:
                break
            t = _cubic_minimum(*bracket)
            margin = 0.1 * (ends[1] - ends[0])
            close = min(ends[1] - t, t - ends[0]) < margin
            if close and (stuck or t >= ends[1] or t <= ends[0]):
                t = ends[1] - margin if abs(t - ends[1]) < abs(t - ends[0]) else ends[0] + margin
                close = False
            stuck = close
            point = self.evaluate(t)
            self.count += 1
            if self.rises(point) or point.loss >= bracket[low].loss:
                bracket[high] = point
                low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
                continue
            done = self.flattens(point)
            if not done and point.slope * (bracket[high].t - bracket[low].t) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
            if done:
                break
        return low


class LBFGS(Optimizer):
    """L-BFGS, a quasi-Newton method with a limited memory.

    `step(closure)` evaluates the model several times: `closure` clears the gradients, computes the loss, calls
    `backward()` and returns the loss. All parameters are in one group. Memory is needed for `history_size + 1` times
    the parameters, twice.

    After Nocedal and Wright, "Numerical Optimization" (2006), chapters 3 and 7.

    Args:
        params: parameters, real or complex.
        lr: length of a step, or with a line search the first that is tried.
        max_iter: iterations in one step.
        max_eval: evaluations in one step; by default 1.25 times `max_iter`.
        tolerance_grad: a step ends where no derivative is larger.
        tolerance_change: a step ends where parameters or loss change by less.
        history_size: how many updates are remembered.
        line_search_fn: None or "strong_wolfe".

    Raises ValueError for a negative `lr` and for several groups, RuntimeError in a step for other line searches.

    >>> import plugrad as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - 3) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()
    29.0
    >>> torch.allclose(w, torch.tensor(3.0))
    True
    """

    couples = True  # for `plugrad check`: one step for all parameters

    def __init__(
        self,
        params,
        lr=1,
        max_iter=20,
        max_eval=None,
        tolerance_grad=1e-7,
        tolerance_change=1e-9,
        history_size=100,
        line_search_fn=None,
    ):
        self.nonnegative(lr=lr)
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, self.options(locals()))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @staticmethod
    def samples(make):
        yield make.args(lr=0.05, max_iter=2)

    @property
    def _params(self) -> list:
        return self.param_groups[0]["params"]

    # ---- all parameters as one vector; complex ones count as pairs of real numbers

    def _gradient(self) -> Tensor:
        parts = []
        for p in self._params:
            grad = plugrad.zeros_like(p) if p.grad is None else p.grad
            grad = grad.to_dense() if getattr(grad, "is_sparse", False) else grad
            parts.append((plugrad.view_as_real(grad.resolve_conj()) if grad.is_complex() else grad).reshape(-1))
        return plugrad.cat(parts)

    def _move(self, length, direction):
        reals = [plugrad.view_as_real(p) if p.is_complex() else p for p in self._params]
        ends = list(accumulate([p.numel() for p in reals]))
        for p, end in zip(reals, ends):
            p.add_(direction[end - p.numel() : end].view_as(p), alpha=length)

    # ---- a step

    @no_grad()
    def step(self, closure):
        """Make a step of up to `max_iter` iterations; return the first loss.

        Where the closure raises, or Ctrl-C comes, parameters and state are again what they were before.
        """
        key = self._params[0]
        values = [p.clone() for p in self._params]
        kept = {name: list(one) if type(one) is list else one for name, one in self.state.get(key, {}).items()}
        was_there = key in self.state
        try:
            return self._iterate(enable_grad()(closure))
        except BaseException:
            with held_back():
                for p, value in zip(self._params, values):
                    p.copy_(value)
                self.state.pop(key, None)
                if was_there:
                    self.state[key] = kept
            raise

    def _iterate(self, closure):
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = closure()
        loss, gradient = float(first), self._gradient()
        state["func_evals"] += 1
        evaluations = 1
        if gradient.abs().max() <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = state["d"] = self._direction(state, gradient, group["history_size"])
            state["prev_flat_grad"] = gradient.clone()
            before = state["prev_loss"] = loss
            length = group["lr"].squeeze() if isinstance(group["lr"], Tensor) else group["lr"]
            if state["n_iter"] == 1:
                length = min(1.0, 1.0 / gradient.abs().sum()) * length
            state["t"] = length
            slope = gradient.dot(direction)
            if slope > -group["tolerance_change"]:
                break
            count = 0
            last = iteration == group["max_iter"]
            if group["line_search_fn"] is not None:
                point, count = self._search(closure, _Point(0, loss, gradient, slope), group, evaluations)
                length, loss, gradient = point.t, point.loss, point.gradient
                state["t"] = length
                self._move(length, direction)
            else:
                self._move(length, direction)
                if not last:  # the next step begins with an evaluation
                    loss, gradient, count = float(closure()), self._gradient(), 1
            evaluations += count
            state["func_evals"] += count
            if last or evaluations >= group["max_eval"] or gradient.abs().max() <= group["tolerance_grad"]:
                break
            if direction.mul(length).abs().max() <= group["tolerance_change"]:
                break
            if abs(loss - before) < group["tolerance_change"]:
                break
        return first

    @staticmethod
    def _direction(state, gradient, history_size) -> Tensor:
        """Return where to go, by the gradients and steps that `state` remembers, and remember the last ones."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return gradient.neg()
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        change, step = gradient.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        curvature = change.dot(step)
        if curvature > 1e-10:
            if len(changes) == history_size:
                for history in (changes, steps, inverses):
                    history.pop(0)
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        state.setdefault("al", [None] * history_size)
        factors, direction = state["al"], gradient.neg()
        for i in reversed(range(len(changes))):
            factors[i] = steps[i].dot(direction) * inverses[i]
            direction.add_(changes[i], alpha=-factors[i])
        direction = direction.mul(state["H_diag"])
        for i in range(len(changes)):
            direction.add_(steps[i], alpha=factors[i] - changes[i].dot(direction) * inverses[i])
        return direction

    def _search(self, closure, start, group, evaluations) -> tuple:
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported; write line_search_fn='strong_wolfe' or leave it out")
        state = self.state[self._params[0]]
        direction, origin = state["d"], [p.clone() for p in self._params]

        def evaluate(t):
            self._move(t, direction)
            loss, gradient = float(closure()), self._gradient()
            for p, value in zip(self._params, origin):
                p.copy_(value)
            return _Point(t, loss, gradient, gradient.dot(direction))

        start.gradient = start.gradient.clone()
        limit = group["max_eval"] - evaluations
        search = _StrongWolfe(evaluate, start, direction.abs().max(), group["tolerance_change"], limit)
        return search.run(state["t"])


@hookimpl
def plugrad_optimizers():
    return collect(Optimizer, globals())
