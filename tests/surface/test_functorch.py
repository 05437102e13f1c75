"""`functorch`, of which `torch.func` was made: modules as functions of their parameters, and names that warn."""

import subprocess
import sys

import numpy
import pytest

import plugrad
from plugrad.func import older

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("functorch")
pytestmark = pytest.mark.filterwarnings("ignore:.*functorch:FutureWarning")


def net(T, tied=False):
    layers = [T.nn.Linear(3, 3), T.nn.BatchNorm1d(3), T.nn.Linear(3, 3)]
    numbers = numpy.random.default_rng(1)
    with T.no_grad():
        for parameter in T.nn.Sequential(*layers).parameters():
            parameter.copy_(T.from_numpy(numbers.normal(size=tuple(parameter.shape)).astype("float32")))
    if tied:
        layers[2].weight = layers[0].weight
        for layer in layers[::2]:
            layer.register_buffer("shift", T.ones(3) if layer is layers[0] else layers[0].shift)
            layer.register_forward_hook(lambda layer, given, result: result + layer.shift)
    return T.nn.Sequential(*layers)


def both(program):
    """Run a program with each library and its functorch; return what it gives, as lists."""
    return program(plugrad, older), program(torch, theirs)


@pytest.mark.parametrize("tied", [False, True])
def test_a_module_is_called_with_other_parameters_and_buffers(tied):
    def program(T, functorch):
        model, x = net(T, tied), T.arange(12.0).reshape(4, 3)
        f, params, buffers = functorch.make_functional_with_buffers(model)
        f(params, buffers, x).square().sum().backward()
        same = T.equal(f([p.detach() for p in params], buffers, x), model(x))
        return [
            f.param_names, f.buffer_names, [p.device.type for p in f.parameters()], same,
            [p.requires_grad for p in params], [b.tolist() for b in buffers], [type(p).__name__ for p in params],
            [p.grad.tolist() for p in params], [p.grad is None for p in model.parameters()],
        ]  # fmt: skip

    ours, expected = both(program)
    assert ours[:5] == expected[:5] and ours[6] == expected[6] and ours[8] == expected[8]
    for mine, other in zip(ours[5] + ours[7], expected[5] + expected[7], strict=True):
        numpy.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-3)


def test_gradients_of_a_function_of_parameters():
    def program(T, functorch):
        f, params = functorch.make_functional(net(T)[0], disable_autograd_tracking=True)
        grads = functorch.grad(lambda params: f(params, T.ones(2, 3)).square().sum())(params)
        return [p.requires_grad for p in params], [numpy.asarray(g.tolist()) for g in grads]

    (required, grads), (expected, others) = both(program)
    assert required == expected == [False, False]
    for mine, other in zip(grads, others, strict=True):
        numpy.testing.assert_allclose(mine, other, rtol=1e-5)


def test_an_ensemble_is_one_function_of_stacked_state():
    def program(T, functorch):
        models = [net(T).eval() for _ in range(3)]
        with T.no_grad():
            models[1][0].weight.mul_(2)
        f, params, buffers = functorch.combine_state_for_ensemble(models)
        out = functorch.vmap(f, (0, 0, None))(params, buffers, T.arange(6.0).reshape(2, 3))
        return [tuple(p.shape) for p in params], [p.requires_grad for p in params], len(buffers), out.detach().numpy()

    ours, expected = both(program)
    assert ours[:3] == expected[:3]
    numpy.testing.assert_allclose(ours[3], expected[3], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda T, functorch: functorch.make_functional(net(T)), "has buffers"),
        (lambda T, functorch: functorch.combine_state_for_ensemble([]), "at least one model"),
        (lambda T, functorch: functorch.combine_state_for_ensemble([net(T), net(T).eval()]), "training/eval"),
        (lambda T, functorch: functorch.combine_state_for_ensemble([net(T), net(T)[0]]), "same class"),
        (lambda T, functorch: T.func.stack_module_state([]), "at least one model"),
        (lambda T, functorch: T.func.stack_module_state([net(T), net(T).eval()]), "training/eval"),
        (lambda T, functorch: T.func.stack_module_state([net(T), net(T)[0]]), "same class"),
        (lambda T, functorch: T.func.stack_module_state([net(T), net(T).requires_grad_(False)]), "same .requires_grad"),
    ],
)
def test_what_it_refuses(call, says):
    for T, functorch in ((plugrad, older), (torch, theirs)):
        with pytest.raises(RuntimeError, match=says):
            call(T, functorch)


def test_a_wrong_number_of_parameters_is_refused():
    f, params = older.make_functional(net(plugrad)[0])
    with pytest.raises(RuntimeError, match="has 2 parameters, got 1"):
        f(params[:1], plugrad.ones(1, 3))


@pytest.mark.parametrize("name", sorted(set(older.__all__) - {"FunctionalModule", "FunctionalModuleWithBuffers"}))
def test_each_name_is_pytorchs_and_warns_what_to_write(name):
    assert callable(getattr(theirs, name))
    given = {"combine_state_for_ensemble": [[net(plugrad)]], "make_functional_with_buffers": [net(plugrad)]}
    given |= {"make_functional": [net(plugrad)[0]], "vjp": [plugrad.sin, plugrad.ones(2)]}
    given["jvp"] = [plugrad.sin, (plugrad.ones(2),), (plugrad.ones(2),)]
    with pytest.warns(FutureWarning, match=f"functorch.{name} is deprecated.*Please use `torch"):
        getattr(older, name)(*given.get(name, [plugrad.sin]))


def test_programs_import_it(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import functorch, torch\nfrom functorch import make_functional, vmap\n"
        "from functorch.experimental import chunk_vmap, replace_all_batch_norm_modules_\n"
        "print(chunk_vmap(torch.dot, chunks=3)(torch.ones(4, 2), torch.ones(4, 2)))\n"
        "f, params = make_functional(torch.nn.Linear(2, 1, bias=False))\n"
        "print(f([torch.ones(1, 2)], torch.ones(2)), functorch.__version__ == torch.__version__)\n"
    )
    command = [sys.executable, "-m", "plugrad", "run", "-W", "ignore", str(program)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.stdout == "tensor([2., 2., 2., 2.])\ntensor([2.]) True\n", result.stderr
