"""Programs of `staged` are scripted and traced with PyTorch and with plugrad, and must come to the same.

Results, gradients, names in state_dicts, refusals by the type of their error. What differs stands in a list.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import pathlib
import sys
import types
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad
from support.two_libraries import _plain as plain
from support.two_libraries import same

HERE = pathlib.Path(__file__).parent / "staged"
pytestmark = pytest.mark.filterwarnings("ignore")

# Not the same as in TorchScript, and why.
DIFFERENT = {
    "length_of_a_number": "PyTorch says 1",
    "nested_comprehension": "TorchScript has one loop in a comprehension",
    "comprehension_over_rows": "TorchScript has no `if` in comprehensions",
    "list_of_two_types": "TorchScript has lists of a Union",
    "formats_a_tensor": "tensors are printed as everywhere else",
    "strings_of_numbers": "1.0 is written as in Python",
    "comprehension_with_if": "TorchScript has no `if` in comprehensions",
    "keyword_only": "TorchScript takes no arguments by name only",
    "bit_operators": "TorchScript has no ~ of integers",
    "dtypes": "TorchScript has numbers for dtypes",
    "Lst": "PyTorch's compiler gives other numbers than the module itself",
    "constants": "PyTorch warns of torch.tensor in traces",
    "square_root_of_a_size": "PyTorch warns of sizes that become floats",
    "detached": "PyTorch's trace has .data as a constant",
    "Rnn": "PyTorch warns in its own layer",
    "Att": "PyTorch's trace fails its own check",
    "Enc": "PyTorch's trace fails its own check",
}
BY_VALUE = (
    "State Cfg <lambda> Lst Meth Cond Ret NT DynIdx BadAttr BadAttr2 BadCond SetNew SetConst Accessed ReadOnly "
    "SharedList Overloaded".split()
)  # not traced here


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """Return a function that imports a file of programs with PyTorch and with plugrad."""
    folder, known = tmp_path_factory.mktemp("staged"), {}

    def modules(name):
        if name not in known:
            text = (HERE / f"{name}.py").read_text()
            ours = text.replace("import torch\n", "import plugrad as torch\n").replace(
                "from torch import", "from plugrad import"
            )
            known[name] = [
                loaded(f"{name}_{library}", folder, one) for library, one in (("theirs", text), ("ours", ours))
            ]
        return known[name]

    yield modules
    for name in known:
        for library in ("theirs", "ours"):
            del sys.modules[f"{name}_{library}"]


def numbers(value):
    """Return a result without whether its tensors require grad: those of frozen programs do not."""
    if isinstance(value, tuple) and value[:1] == ("tensor",):
        return value[:-1]
    if isinstance(value, dict):
        return {key: numbers(one) for key, one in value.items()}
    return [numbers(one) for one in value] if isinstance(value, list) else value


def loaded(name, folder, text):
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where PyTorch looks for the source of classes
    spec.loader.exec_module(module)
    return module


def attempt(stage, run):
    """Return ("refused" or "failed", the type of error) or ("done", the result)."""
    try:
        made = stage()
    except (NotImplementedError, RuntimeError) as error:
        return "refused", RuntimeError, str(error)
    except Exception as error:
        return "refused", type(error).__name__, str(error)
    try:
        return "done", run(made), made
    except (torch.jit.Error, plugrad.jit.Error) as error:
        return "failed", "Error", str(error)
    except (NotImplementedError, RuntimeError) as error:
        return "failed", RuntimeError, str(error)
    except Exception as error:
        return "failed", type(error).__name__, str(error)


def agree(one, other):
    assert one[0] == other[0], (one[:2], other[:3])
    assert same(one[1], other[1]), (one[1], other[1])


def count(name, listed):
    text = (HERE / f"{name}.py").read_text()
    return range(text[text.index(f"{listed} = [") :].count("\n    ("))


LIBRARIES = (
    "json.decoder textwrap statistics heapq difflib ast plugrad.fx.graph plugrad.plugins.layers.conv "
    "torch.nn.functional torch.nn.modules.conv"
).split()
SCRIPTED = ("functions", "more_functions", "classes", "enums", "scopes", "numbers")
FUNCTIONS = [(name, number) for name in SCRIPTED for number in count(name, "CASES")]


@pytest.mark.parametrize(("name", "number"), FUNCTIONS)
def test_scripted_functions(twice, name, number):
    (f, x), (g, y) = (module.CASES[number] for module in twice(name))
    theirs = attempt(lambda: torch.jit.script(f), lambda made: plain(made(*x)))
    ours = attempt(lambda: plugrad.jit.script(g), lambda made: plain(made(*y)))
    if f.__name__ in DIFFERENT:
        assert theirs[:1] != ours[:1] or not same(theirs[1], ours[1]), "it is the same now"
    else:
        agree(theirs, ours)
    if ours[0] == "refused":
        assert "HERE" in ours[2] and "ours.py" in ours[2]  # the line is shown


def filled(library, module):
    with library.no_grad():
        for number, parameter in enumerate(module.parameters()):
            values = [((i * 7 + number * 3) % 11 - 5) / 10 for i in range(parameter.numel())]
            parameter.copy_(library.tensor(values).view(parameter.shape))
    return module


def trained(library, module, args):
    """Return results in training and evaluation, gradients, and what a script module says of itself."""
    result = module(*args)
    leaves = [one for one in leaves_of(library, result) if one.requires_grad]
    if leaves:
        sum((one * one).sum() for one in leaves).backward()
    grads = {name: None if one.grad is None else plain(one.grad) for name, one in module.named_parameters()}
    state = {name: plain(value) for name, value in module.state_dict().items()}
    again = plain(module.eval()(*args))
    return [
        plain(result),
        grads,
        again,
        state,
        module.original_name,
        sorted(name for name, _ in module.named_modules()),
    ]


def leaves_of(library, value):
    if isinstance(value, library.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for one in value for leaf in leaves_of(library, one)] if isinstance(value, (list, tuple)) else []


@pytest.mark.parametrize("number", count("modules", "MODULES"))
def test_scripted_modules(twice, number):
    (f, x), (g, y) = (module.MODULES[number] for module in twice("modules"))
    theirs = attempt(lambda: torch.jit.script(filled(torch, f())), lambda made: trained(torch, made, x))
    ours = attempt(lambda: plugrad.jit.script(filled(plugrad, g())), lambda made: trained(plugrad, made, y))
    if f.__name__ == "Lst":  # see DIFFERENT
        expected = plain(filled(plugrad, g())(*y))
        assert same(ours[1][0], expected) and not same(theirs[1][0], expected)
    else:
        agree(theirs, ours)


@pytest.mark.parametrize("number", count("modules", "MODULES"))
def test_files_compiled_and_frozen_modules_do_what_the_module_does(twice, number):
    make, args = twice("modules")[1].MODULES[number]
    kind, result, _ = attempt(
        lambda: plugrad.jit.script(filled(plugrad, make()).eval()), lambda made: numbers(plain(made(*args)))
    )
    if kind != "done":
        return

    def staged():
        return plugrad.jit.script(filled(plugrad, make()).eval())

    script = staged()
    assert same(numbers(plain(plugrad.compile(staged(), backend="numpy")(*args))), result)
    frozen = plugrad.jit.freeze(staged())
    assert same(numbers(plain(frozen(*args))), result)
    if make.__name__ == "Meth":  # it calls a method of Python's
        with pytest.raises(RuntimeError, match="Python function"):
            plugrad.jit.save(script, io.BytesIO())
        return
    for one in (staged(), plugrad.jit.freeze(staged())):
        loaded = again(one)
        assert same(numbers(plain(loaded(*args))), result)
        assert list(loaded.state_dict()) == list(one.state_dict()) and repr(loaded) == repr(one)
        assert loaded.code == one.code and str(loaded.graph) == str(one.graph)


def again(one):
    file = io.BytesIO()
    plugrad.jit.save(one, file)
    file.seek(0)
    return plugrad.jit.load(file)


@pytest.mark.parametrize(("name", "number"), FUNCTIONS)
def test_functions_of_files(twice, name, number):
    function, args = twice(name)[1].CASES[number]
    kind, _, *made = attempt(lambda: plugrad.jit.script(function), lambda made: None)
    if kind == "done":
        loaded = again(made[0])
        assert loaded.code == made[0].code and loaded.schema == made[0].schema
        first, second = ([plugrad.clone(one) if isinstance(one, plugrad.Tensor) else one for one in args] for _ in "ab")
        ones, others = (attempt(lambda: None, lambda _, f=f, x=x: plain(f(*x))) for f, x in
                        ((made[0], first), (loaded, second)))  # fmt: skip
        agree(ones, others)


def traced(library, function, example, more):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = library.jit.trace(function, example)
    warned = any("Tracer" in one.category.__name__ for one in caught)
    if library is plugrad:
        made = again(made)
    return [plain(made(*example)), None if more is None else plain(made(*more)), warned]


@pytest.mark.parametrize("number", count("traces", "TRACES"))
def test_traced_functions(twice, number):
    rows = [module.TRACES[number] for module in twice("traces")]
    theirs, ours = (
        attempt(lambda: None, lambda _, library=library, row=row: traced(library, *row))
        for library, row in zip((torch, plugrad), rows)
    )
    if rows[0][0].__name__ in DIFFERENT:
        assert not same(theirs[1], ours[1]), "it is the same now"
        assert same(ours[1][0], plain(rows[1][0](*rows[1][1])))
    else:
        agree(theirs, ours)


@pytest.mark.parametrize("number", count("modules", "MODULES"))
def test_traced_modules(twice, number):
    (f, x), (g, y) = (module.MODULES[number] for module in twice("modules"))
    if f.__name__ in BY_VALUE:
        return
    ours = attempt(lambda: None, lambda _: traced(plugrad, filled(plugrad, g()).eval(), y, None))
    if f.__name__ in DIFFERENT:
        assert same(ours[1][0], plain(filled(plugrad, g()).eval()(*y)))
    else:
        agree(attempt(lambda: None, lambda _: traced(torch, filled(torch, f()).eval(), x, None)), ours)


@pytest.mark.parametrize("name", LIBRARIES)
def test_any_function_is_compiled_or_refused(name):
    module, compiled = importlib.import_module(name), 0
    classes = [one for one in vars(module).values() if isinstance(one, type)]
    for one in [*vars(module).values(), *[value for cls in classes for value in vars(cls).values()]]:
        if isinstance(one, types.FunctionType):
            try:
                made = plugrad.jit.script(one)
            except (plugrad.jit.errors.FrontendError, RuntimeError, OSError) as error:
                assert "HERE" in str(error) or isinstance(error, OSError), error
            else:
                compiled += bool(made.code)
    assert compiled < 30


DRAWING = {
    "dropout": lambda t, x: t.nn.functional.dropout(x, 0.5, True),
    "dropout at evaluation": lambda t, x: t.nn.functional.dropout(x, 0.5, False),
    "alpha_dropout": lambda t, x: t.nn.functional.alpha_dropout(x, 0.5, True),
    "rrelu": lambda t, x: t.nn.functional.rrelu(x, training=True),
    "bernoulli": lambda t, x: t.bernoulli(x) + t.rand_like(x),
    "in place": lambda t, x: x.clone().normal_().exponential_().uniform_(),
    "of a shape": lambda t, x: t.randn(3, 4) + t.randint(3, (3, 4)),
    "of a distribution": lambda t, x: t.distributions.Gamma(x, x, validate_args=False).rsample(),
    "shares": lambda t, x: t._sample_dirichlet(x),
    "none": lambda t, x: (x + 1).sum() / t.ones(2),
}


@pytest.mark.parametrize("name", DRAWING)
def test_graphs_say_which_nodes_draw_random_numbers(name):
    """`isNondeterministic` of nodes, also of private ops such as those that distributions draw with."""
    found = []
    for library in (torch, plugrad):
        x = library.full((3, 4), 0.5)
        made = library.jit.trace(lambda one, t=library: DRAWING[name](t, one), (x,), check_trace=False)
        found.append([node.kind() for node in made.graph.nodes() if node.isNondeterministic()])
    assert found[0] == found[1]
    assert str(again(made).graph) == str(made.graph)


def test_private_names_that_are_no_ops_stay_out_of_programs():
    for name in ("torch._C", "torch.__getattr__", "torch.nn.functional._standard_gamma", "Tensor._raw", "torch._no"):
        with pytest.raises(LookupError):
            plugrad.jit.names.function(name)


def test_a_forward_that_stays_pythons_reads_what_is_of_no_type(twice):
    for module in twice("modules"):
        made = module.DerivedInPart()
        for call in (made, made.forward):
            result, count = call(module.x23, 1, 2)
            assert count == 2 and result.tolist() == (module.x23 * 2).tolist()
