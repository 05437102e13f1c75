"""Interrupt `import plugrad` at many points, each in a forked child, and see that the next import is right.

A script: `python first_import.py` prints what went wrong, and last how many points were tried.
"""

import sys

import numpy  # noqa: F401 - as what has been imported already
from interrupted_children import trials
from own_files import OWN

MOST = 9


class Tracer:
    def __init__(self, stops):
        self.count, self.stops, self.where = 0, stops, None

    def __call__(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(OWN):
            return None
        if event == "line":
            if self.stops(self.count):
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                sys.settrace(None)
                raise KeyboardInterrupt
            self.count += 1
        return self


def attempt(stops) -> Tracer:
    tracer = Tracer(stops)
    sys.settrace(tracer)
    try:
        import plugrad  # noqa: F401
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return tracer


def use() -> None:
    import plugrad as torch

    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    optimizer = torch.optim.Adam(net.parameters())
    loss = torch.nn.functional.mse_loss(net(torch.ones(1, 2)), torch.zeros(1, 3))
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        assert not (net[0].weight * 2).requires_grad
    assert repr(torch.ones(2)) == "tensor([1., 1.])"
    assert torch.autograd.grad((net[0].weight ** 2).sum(), net[0].weight)[0].shape == (3, 2)


if __name__ == "__main__":
    sys.exit(trials(attempt, use, MOST))
