"""The check of an op's ONNX form, where onnxruntime is installed: what it computes is what the op computes."""

from __future__ import annotations

import importlib.util

import plugrad
from plugrad import nest
from plugrad.testing.calls import Skip, agree, each, is_random
from plugrad.testing.tensors import is_float, tensors_in

_NONE_OF_ONNXRUNTIME = ("NOT_IMPLEMENTED", "INVALID_GRAPH", "is not a registered function/op")


def form(op, device):
    """The form computes what the op does, in onnxruntime."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise Skip("pip install onnxruntime, and the form is compared with the op")
    done, why = 0, ""
    for label, sample in each(op, device):
        if is_random(op, sample):
            continue
        single = nest.change(_single, (list(sample.args), sample.kwargs))
        try:
            told = _run(op, *single)
        except (NotImplementedError, TypeError) as error:  # a form says what it can't write
            why = str(error)
            continue
        if told is None:
            continue
        done += 1
        real = tensors_in(op.function(*single[0], **single[1]))
        for number, (one, other) in enumerate(zip(told, real)):
            assert tuple(one.shape) == tuple(other.shape) and one.dtype is other.dtype, (
                f"{label}, result {number}: the ONNX form gives {one.dtype}{list(one.shape)}, the op "
                f"{other.dtype}{list(other.shape)}"
            )
            agree(one, other, f"{label}, result {number} of the ONNX form in onnxruntime", rtol=1e-4, atol=1e-5)
    if not done:
        raise Skip(
            f"the form takes none of the samples: {why[:200]}" if why else "onnxruntime runs none of the samples"
        )


def _single(leaf):
    """Return tensors of float64 in float32, for which onnxruntime has most operators."""
    if not isinstance(leaf, plugrad.Tensor):
        return leaf
    leaf = leaf.detach()
    return leaf.float() if is_float(leaf) and leaf.dtype is plugrad.float64 else leaf


def _run(op, args, kwargs):
    """Return what onnxruntime computes; None where it has no operator for these types."""
    import onnxruntime

    given = [leaf for leaf in nest.leaves((args, kwargs)) if isinstance(leaf, plugrad.Tensor)]

    def program(*tensors):
        rest = iter(tensors)
        ours = nest.change(lambda leaf: next(rest) if isinstance(leaf, plugrad.Tensor) else leaf, (args, kwargs))
        return [one.clone() for one in tensors_in(op.function(*ours[0], **ours[1]))]

    exported = plugrad.onnx.export(program, tuple(given), opset_version=20)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(bytes(exported), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if any(word in str(error) for word in _NONE_OF_ONNXRUNTIME):
            return None
        raise AssertionError(f"onnxruntime refuses what the ONNX form wrote: {error}") from error
    taken = {one.name for one in session.get_inputs()}
    feeds = {name: one.numpy(force=True) for name, one in zip(exported.input_names, given) if name in taken}
    return [plugrad.from_numpy(one) for one in session.run(None, feeds)]
