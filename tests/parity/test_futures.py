"""`torch.futures`: results, exceptions and callbacks, beside PyTorch's."""

from __future__ import annotations

import pytest

import plugrad

torch = pytest.importorskip("torch")


def _raises(future):
    raise ValueError("the callback's")


@pytest.mark.parametrize("given", [2, ValueError("the future's")], ids=repr)
@pytest.mark.parametrize("callback", [lambda f: f.value() + 1, lambda f: f + 1, _raises, lambda: 1], ids=list("vawn"))
def test_callbacks_give_a_result_or_a_runtime_error_that_tells_of_theirs(callback, given):
    def outcome(T):
        future = T.futures.Future()
        after = future.then(callback)
        (future.set_exception if isinstance(given, Exception) else future.set_result)(given)
        try:
            return after.wait()
        except Exception as error:
            return type(error), str(error).split(": ")[:2]

    assert outcome(plugrad) == outcome(torch)
