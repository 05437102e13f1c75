"""`plugrad.fx` beside PyTorch's: the same programs give the same graphs, as text and as code, and the same numbers."""

import copy
import math
import pickle
import typing

import numpy
import pytest
import torch

import plugrad
from plugrad.extend import unary

BOTH = pytest.mark.parametrize("library", [torch, plugrad], ids=["torch", "plugrad"])


def attention(library):
    class Attention(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = library.nn.Linear(8, 24), library.nn.Linear(8, 8)
            self.scale = library.nn.Parameter(library.ones(1))
            self.register_buffer("mask", library.zeros(4, 4))

        def forward(self, x, drop=0.0):
            batch, length, width = x.shape
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            q, k, v = [one.view(batch, length, 2, -1).transpose(1, 2) for one in (q, k, v)]
            weights = (q @ k.transpose(-2, -1)) * self.scale / 4**0.5
            weights = library.nn.functional.softmax(weights.masked_fill(self.mask == 1, float("-inf")), dim=-1)
            weights = library.nn.functional.dropout(weights, drop, self.training)
            return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width)), weights

    return Attention()


def cell(library):
    class Cell(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.layers = library.nn.LSTMCell(4, 3), library.nn.ModuleList([library.nn.Linear(3, 3)])

        def forward(self, x, h, c):
            h, c = self.cell(x, (h, c))
            for layer in self.layers:
                h = layer(h)
            return {"h": h, "both": (c, x[0])}

    return Cell()


def mlp(library):
    nn = library.nn
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Sequential(nn.Dropout(0.1), nn.Linear(8, 2)))


def operators(library):
    return lambda x: (1 - x, 2 / x, x**2, 2**x, -x, abs(x), x // 2, x % 2, x == 1, x > 0.5, ~x, x & 1, x @ x, x.T, +x)


def slices(library):
    return lambda x: (x[:, 1:3, None], x[..., 0], x[0, ::2], (x.shape[0], x.size(1)), [x.mean(dim=(1, 2))], {"a": x})


def keywords(library):
    def function(x, y=3, *, z=2):
        return library.sum(x, dim=1, keepdim=True) + y * z + library.cat([x, x], dim=0) + library.stack((x, x), 0)

    return function


def functional(library):
    F = library.nn.functional
    return lambda x: (
        F.relu(x, inplace=True), F.gelu(x), F.linear(x, x), F.layer_norm(x, (4,)), F.interpolate(x, scale_factor=2),
        F.max_pool2d(x, 2, stride=1), F.avg_pool2d(x, 2), F.conv2d(x, x, padding=1), F.pad(x, (1, 1)),
        F.cross_entropy(x, x), F.mse_loss(x, x, reduction="sum"), F.embedding(x, x), F.one_hot(x, 3),
        F.normalize(x, dim=1), F.scaled_dot_product_attention(x, x, x, is_causal=True), F.log_softmax(x, dim=1),
    )  # fmt: skip


def functions(library):
    return lambda x: (
        library.max(x, dim=1), library.max(x, 1), library.flatten(x, 1), library.split(x, 2, dim=1), library.topk(x, 2),
        library.einsum("ij,jk->ik", x, x), library.chunk(x, 2, dim=0), library.clamp(x, min=0), library.sort(x, dim=0),
        library.randn_like(x), library.arange(x.size(0)), library.where(x > 0, x, library.zeros_like(x)),
    )  # fmt: skip


def constants(library):
    return lambda x: library.full((2,), 3.0) + x + library.tensor([1.0]) * x * math.pi


def annotated(library):
    def function(x: library.Tensor, k: int = 2, *, many: typing.Optional[typing.List[int]] = None) -> library.Tensor:  # noqa: UP006, UP045
        return x * k

    return function


def variadic(library):
    return lambda *args, **kwargs: args[0] + kwargs["b"]


PROGRAMS = [attention, cell, mlp, operators, slices, keywords, functional, functions, constants, annotated, variadic]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_graphs_and_code_are_those_of_pytorch(program):
    ours, theirs = (library.fx.symbolic_trace(program(library)) for library in (plugrad, torch))
    assert ours.code == theirs.code
    assert str(ours.graph) == str(theirs.graph)
    assert [node.op for node in ours.graph.nodes] == [node.op for node in theirs.graph.nodes]


@pytest.mark.parametrize("program", [attention, cell, mlp], ids=lambda program: program.__name__)
def test_traced_modules_give_the_same_numbers_after_copies_and_pickles(program):
    plugrad.manual_seed(0)
    model = program(plugrad).eval()
    inputs = {"attention": [(2, 4, 8)], "cell": [(2, 4), (2, 3), (2, 3)], "mlp": [(3, 4)]}[program.__name__]
    inputs = [plugrad.randn(*shape) for shape in inputs]
    traced = plugrad.fx.symbolic_trace(model)
    wanted = plugrad.utils._pytree.tree_leaves(model(*inputs))
    transformed = plugrad.fx.Transformer(traced).transform()
    copies = (traced, copy.deepcopy(traced), pickle.loads(pickle.dumps(traced)), transformed)
    for one in (*copies, plugrad.fx.Interpreter(traced).run):
        for value, expected in zip(plugrad.utils._pytree.tree_leaves(one(*inputs)), wanted, strict=True):
            assert plugrad.equal(value, expected)
    assert all(one.code == traced.code for one in copies[:3])
    theirs = torch.fx.symbolic_trace(program(torch).eval())
    assert traced.state_dict().keys() == theirs.state_dict().keys()


@BOTH
def test_what_has_no_value_yet_is_refused(library):
    def branch(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(library.fx.proxy.TraceError, match="cannot be used as inputs to control flow"):
        library.fx.symbolic_trace(branch)
    with pytest.raises(library.fx.proxy.TraceError, match="cannot be iterated"):
        library.fx.symbolic_trace(lambda x: [one for one in x])
    with pytest.raises(RuntimeError, match="'len' is not supported"):
        library.fx.symbolic_trace(lambda x: len(x))
    with pytest.raises(NotImplementedError, match="top level"):
        library.fx.wrap("len")


def test_the_refusal_says_what_to_do():
    with pytest.raises(NotImplementedError, match="argument of type.*__fx_create_arg__"):
        plugrad.fx.symbolic_trace(lambda x: plugrad.add(x, object()))
    with pytest.raises(plugrad.fx.proxy.TraceError, match=r"concrete_args=.*torch\.fx\.wrap"):
        plugrad.fx.symbolic_trace(lambda x: 1 if x else 2)


@BOTH
def test_arguments_that_are_known_decide_branches(library):
    def function(x, negate, pair):
        return -x + pair["a"] if negate else x

    PH = library.fx.PH
    traced = library.fx.symbolic_trace(function, concrete_args={"negate": True, "pair": {"a": PH}})
    result = traced(library.ones(2), True, {"a": library.ones(2)})
    assert result.tolist() == [0.0, 0.0]
    with pytest.raises(AssertionError, match="specialized"):
        traced(library.ones(2), False, {"a": library.ones(2)})


def test_ops_of_a_third_party_are_nodes():
    @unary(ref="numpy.cbrt", vjp=None)
    def cbrt_of_a_stranger(xp, input):
        """Cube root."""
        return xp.cbrt(input)

    traced = plugrad.fx.symbolic_trace(lambda x: cbrt_of_a_stranger(x) + 1)
    assert [node.op for node in traced.graph.nodes] == ["placeholder", "call_function", "call_function", "output"]
    assert traced(plugrad.tensor([8.0])).tolist() == pytest.approx([3.0])


@BOTH
def test_classes_with_overrides_are_asked_by_composites_outside_of_traces_too(library):
    graph = library.fx.Graph()
    x = library.fx.Proxy(graph.placeholder("x"))
    for function in (library.nn.functional.normalize, library.split, library.nn.functional.conv2d):
        function(x, x) if function is not library.split else function(x, 2)
    assert [node.name for node in graph.nodes] == ["x", "normalize", "split", "conv2d"]


@BOTH
def test_graphs_can_be_edited(library):
    traced = library.fx.symbolic_trace(lambda x, y: library.relu(x + y) * 2)
    graph = traced.graph
    (add,) = [node for node in graph.nodes if node.name == "add"]
    with graph.inserting_after(add):
        negative = graph.call_function(library.neg, (add,))
    add.replace_all_uses_with(negative, lambda user: user is not negative)
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(add)
    (relu,) = graph.find_nodes(op="call_function", target=library.relu)
    assert relu.all_input_nodes == [negative] and list(add.users) == [negative]
    with graph.inserting_before(relu):
        graph.call_function(library.abs, (add,))
    graph.lint()
    assert graph.eliminate_dead_code() and not graph.eliminate_dead_code()
    traced.recompile()
    assert traced(-library.ones(2), -library.ones(2)).tolist() == [4.0, 4.0]
    relu.prepend(add)
    with pytest.raises(RuntimeError, match="topologically ordered"):
        graph.lint()
    with pytest.raises(TypeError, match="does not support mutation"):
        graph.call_function(library.cat, ([add],)).args[0].append(add)


@BOTH
def test_patterns_are_replaced(library):
    def program(x, a, b):
        return x + library.cat([a, b]).sum() + library.cat([a, b]).max()

    traced = library.fx.symbolic_trace(program)
    matches = library.fx.replace_pattern(traced, lambda u, v: library.cat([u, v]), lambda u, v: library.stack([u, v]))
    traced.graph.lint()
    assert len(matches) == 2 and traced.code.count("torch.stack") == 2 and "cat" not in traced.code
    assert traced(library.zeros(1), library.ones(2), library.ones(2)).tolist() == [5.0]


def test_values_that_others_need_are_not_replaced():
    def program(x):
        y = plugrad.relu(x)
        return plugrad.neg(y) + y

    traced = plugrad.fx.symbolic_trace(program)
    pattern = lambda v: plugrad.neg(plugrad.relu(v))  # noqa: E731
    assert not plugrad.fx.replace_pattern(traced, pattern, lambda v: plugrad.sigmoid(v))


@BOTH
def test_shapes_of_all_values_are_noted(library):
    traced = library.fx.symbolic_trace(mlp(library).eval())
    library.fx.passes.shape_prop.ShapeProp(traced).propagate(library.ones(3, 4))
    shapes = [tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes]
    assert shapes == [(3, 4), (3, 8), (3, 8), (3, 8), (3, 8), (3, 2), (3, 2)]
    assert all(node.meta["tensor_meta"].memory_format is library.contiguous_format for node in traced.graph.nodes)


def test_convolutions_and_norms_are_fused():
    library, nn = plugrad, plugrad.nn
    library.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()).eval()
    fused = library.fx.experimental.optimization.fuse(model)
    assert [node.target for node in fused.graph.nodes] == ["input", "0", "2", "output"]
    x = library.randn(1, 1, 5, 5)
    numpy.testing.assert_allclose(fused(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-5, atol=1e-6)


@BOTH
def test_the_tracer_can_be_changed(library):
    class Whole(library.fx.Tracer):
        def is_leaf_module(self, m, path):
            return isinstance(m, library.nn.Sequential) or super().is_leaf_module(m, path)

    model = library.nn.Sequential(mlp(library), library.nn.ReLU())
    graph = Whole().trace(model)
    assert [node.target for node in graph.nodes] == ["input", "0", "1", "output"]
    assert [*graph.nodes][1].meta["nn_module_stack"]["0"] == ("0", library.nn.Sequential)


def test_modules_are_as_before_behind_a_failed_trace():
    before = plugrad.nn.Module.__call__, plugrad.nn.Module.__getattr__
    with pytest.raises(plugrad.fx.proxy.TraceError):
        plugrad.fx.symbolic_trace(lambda x: 1 if x else 2)
    assert (plugrad.nn.Module.__call__, plugrad.nn.Module.__getattr__) == before
    assert not plugrad.fx.is_fx_tracing() and "__call__" not in vars(plugrad.nn.Module)


def test_code_with_types_and_shapes_is_printed(capsys):
    traced = plugrad.fx.symbolic_trace(mlp(plugrad).eval())
    plugrad.fx.passes.shape_prop.ShapeProp(traced).propagate(plugrad.ones(3, 4))
    text = traced.print_readable()
    assert 'def forward(self, input: "f32[3, 4]"):' in text and text.startswith("class Sequential(torch.nn.Module):")
    assert capsys.readouterr().out.strip() == text.strip()


@pytest.mark.parametrize("name", ["my layer", 'q"x', "a\\b", "it's", "a\nb", "é", "class", "1"])
def test_modules_of_any_name_are_called(name):
    """PyTorch writes code that does not compile for some of them; what it can write is the same here."""
    codes = []
    for library in (plugrad, torch):
        root, graph = library.nn.Module(), library.fx.Graph()
        root.add_module(name, library.nn.ReLU())
        graph.output(graph.call_module(name, (graph.placeholder("x"),)))
        try:
            traced = library.fx.GraphModule(root, graph)
            assert traced(library.tensor([-1.0, 2.0])).tolist() == [0, 2]
            codes.append(traced.code)
        except (SyntaxError, AttributeError):
            assert library is torch
    assert len({*codes}) == 1


@BOTH
@pytest.mark.parametrize("name", ["a b", "x:int", "class", "a=print(1)):\n    0#", "***a"])
def test_parameters_have_names(library, name):
    graph = library.fx.Graph()
    graph.output(graph.placeholder(name))
    with pytest.raises(SyntaxError):
        library.fx.GraphModule(library.nn.Module(), graph)
    graph = library.fx.Graph()
    graph.output(graph.call_function(library.relu, (graph.placeholder("x"),), {name: 1}))
    with pytest.raises(SyntaxError):
        library.fx.GraphModule(library.nn.Module(), graph)
