"""What authors of plugins may write, in words: the options of ops, and what formulas, samples and modules may have.

`plugrad.cli.reference` puts these beside the signatures that the code has.
"""

from __future__ import annotations

FAMILIES = {  # decorator: what follows from it
    "unary": "promotion, shape rule, in-place form, `out=`",
    "binary": "the same; operands broadcast, and one of them may be a Python number",
    "elementwise": "the same for any number of operands",
    "reduction": "normalised `dim`, 0-d inputs, shape rule, `out=`",
    "view": "writes to the view reach the base",
    "composite": "gradient, shapes and devices are those of the ops that it calls",
    "factory": "arguments `dtype`, `device`, `requires_grad`, `out`",
    "op": "methods, `out=`; the shape rule is written with `@NAME.meta`, or `like=`",
}
OPTIONS = {  # keyword of a decorator: what it says
    "name": "a name other than the function's",
    "at": 'the public names, `("linalg.NAME",)`, instead of `plugrad.NAME` and `Tensor.NAME`; `()` for none',
    "aliases": 'further public names, `("clip", "special.clip")`',
    "ref": 'the function that values are checked against: `"numpy.cbrt"`, or one of the package\'s own',
    "inplace": (
        'whether there is `Tensor.NAME_`; `"shape"` for a view whose in-place form gives the tensor '
        "another shape"
    ),
    "node": "the name of its nodes in the graph, as `grad_fn` shows it, or a function that gives one",
    "eight_bits": "True: the kernel takes floats of eight bits, which it moves or compares; all others refuse them",
    "complex": (
        "False: complex inputs are refused; True: they have gradients, too (most formulas then need "
        "`conj`); None: values are computed, and gradients refused"
    ),
    "domain": "the interval that samples are drawn from, `(0, None)`",
    "promote": (
        'the dtype of the operands: `"same"`, their common one; `"float"`, and integers become floats '
        'first; `"int"`, integers only; `"bool"`, and the result is bool; of reductions also `"int64"` '
        '(sums of integers), `"index"` (positions) and `"bits"` (uint64, of the elements as they lie in memory)'
    ),
    "vjp": "None: there is no gradient; a formula that calls such an op can't be differentiated again",
    "returns": 'the fields of a named tuple of results, `("values", "indices")`',
    "keeps_given": "whether `keepdim` is only taken together with a `dim`, which may be None",
    "like": "the shape rule of an `@op`: the result has the shape and the dtype of the input of that name",
    "variadic": '`"dims"`: `f(x, 1, 2)` is `f(x, (1, 2))`',
    "sequence": "True: the first parameter is a list of tensors",
    "override": "True: the op may replace plugrad's own of that name, if the user prefers it",
    "kinds": (
        'what a parameter takes, where neither its annotation nor a bool for its default says so: `{"n": '
        '"int"}`; `int`, `ints`, `float`, `number`, `bool`, `str`, `tensor`, `tensors`, `dtype`, '
        '`device`...; alternatives are joined by a bar, `"int|ints"`, and a `?` at the end allows None'
    ),
    "older": "keyword-only numbers that may stand before what they scale, too, as in `add(x, alpha, y)`",
    "once": (
        "True: the gradient can't be differentiated again, as with `once_differentiable`: doing so is an "
        "error"
    ),
    "any_order": (
        "True: a kernel may return its results in whichever order of elements is quickest; whoever looks "
        "at their strides or memory gets them row-major; `\"rows\"`: channels last is no order to keep, either"
    ),
    "autocast": (
        'in which dtype autocast computes it: `"lower"`, `"float32"`, `"set_dtype"`, `"promote"`, a dtype, or a '
        'function of the arguments that says so; or a dict of these by device type, `{"cuda": "lower"}`'
    ),
    "tensors": 'the parameters that are operands, `("input", "weight")`: they broadcast',
    "same": "those of the operands that are promoted to one dtype; by default all of them",
    "takes_half": "True: its kernel computes in float16 itself, instead of in float32 with one rounding at the end",
    "fresh": "True: results are no views, though the last op that they come from makes one of what nobody else has",
    "ordered_by": "operands whose order in memory that of the result follows; () makes it the kernel's",
    "alike": "whether the operands after the first are all numbers or all tensors; a mixture is refused",
    "fits": "numbers that an element of the result must be able to hold; others are refused",
    "exact": "operands whose Python numbers are not rounded to half precision before the kernel meets them",
    "meet": "a function of the operands' dtypes that raises the error for those that must not meet",
    "wraps": (
        "False: a number that the operands' integer dtype can't hold is refused, instead of wrapped around; None: the "
        "kernel gets it as it is"
    ),
    "numbers": (
        'which operand may be a Python number when the op is called by name: `"other"`, `"both"` or '
        '`"none"`'
    ),
    "follows": (
        "True: what has memory of its own stands for a view, as a conjugate does: it is locked, and follows what is "
        "written to the first argument"
    ),
    "itself": "True: where the kernel hands its array back, the tensor itself is the result",
}
FORMULAS = {  # what a gradient formula may have among its parameters
    "F": (
        "the ops, first of all: those of the own distribution and plugrad's, and `F(record)` for another "
        "package's. On arrays they run kernels, on Tensors, for second derivatives, they are "
        "differentiable"
    ),
    "g": (
        "the gradient of the result, with its shape and dtype; of several results a tuple, with zeros for "
        "those that nobody used, and None for integers. It must not be written into"
    ),
    "NAME": (
        "any parameter of the op, as it came: an operand may be a Python number, `dim` may be negative or "
        "None"
    ),
    "y": "the result; of several a tuple",
    "y1": "one of several results",
    "NAME_shape": "only the shape of a parameter: nothing of it has to be kept",
    "NAME_dtype": "only its dtype",
    "needs": (
        "of a formula for several inputs, a tuple of bools in their order: whether anybody asks for that "
        "gradient. For the others the formula may return None"
    ),
}
MEANINGS = {  # what formulas return, and shape rules get
    "One formula, several inputs": (
        '`@NAME.vjp("input", "weight")` declares one formula for both, which returns a tuple.'
    ),
    "No gradient": "A formula returns None where there is none.",
    "Broadcasting": (
        "What a formula of `@unary`, `@binary` and `@elementwise` returns may have the shape of the "
        "result: plugrad sums it to that of the input. A formula of an `@op` whose kernel broadcasts does "
        "that itself: `F.sum_to_size(g * weight, input.shape)`."
    ),
    "Shape rules": (
        "`@NAME.meta` gets what a call gets, with arrays in place of tensors that have `shape`, `dtype` "
        "and `ndim` but no data. Their dtypes are NumPy's, and so is the one that it returns: `return (n, "
        "m), input.dtype`."
    ),
}
DOCUMENTATION = """\
The docstring of whatever a package brings is what `plugrad ops show`, the listings and the README's table print. Its
first line is a sentence of at most 80 columns that says what the thing does; `plugrad check` refuses a longer one, and
runs the examples below (`>>>`)."""
CLASSES = {  # attributes that plugrad and its checks look at: (of what, attribute) -> meaning
    ("layer, loss", "samples"): "static method: yields pairs (arguments of the constructor, arguments of the call)",
    ("optimizer", "samples"): "static method: yields the options",
    ("optimizer", "elementwise"): (
        "True: each element is updated by itself, so `update` may get joined or split parameters"
    ),
    ("optimizer", "couples"): "True: a step of one parameter depends on the others, by a norm of all for example",
    ("optimizer", "goes_back"): "True: a step may go up where the gradient is the same everywhere, as Lookahead's do",
    ("schedule", "samples"): "static method: yields the arguments behind the optimizer",
    ("schedule", "metric"): (
        "static method `metric(epoch)`: what its `step(metric)` is called with in checks. A schedule that "
        "is driven by a measure overrides `step`, as `step(self, metric)`, and calls `super().step()`"
    ),
    ("initialiser", "samples"): "attribute of the function: yields the arguments of a call",
}
