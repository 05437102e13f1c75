"""Plugins of third parties that work: loaded at first use, and at no cost before."""

import itertools

from support.distribution_builder import build, example, op_module, output, run

# ---------------------------------------------------------------------------------------------------- plugins that work


def test_an_op_and_a_layer_of_a_third_party(tmp_path):
    program = """
import sys, plugrad as torch
assert "plugrad_swish" not in sys.modules
assert "swish" in dir(torch) and "Swish" in dir(torch.nn)
assert "plugrad_swish" not in sys.modules
x = torch.tensor([0.5, -1.0], requires_grad=True)
silu = torch.nn.functional.silu(x)
assert torch.allclose(x.swish(), silu) and "plugrad_swish" in sys.modules
assert torch.allclose(torch.swish(x), silu) and torch.allclose(torch.ops.swish.swish(x), silu)
assert x.detach().clone().swish_().tolist() == x.detach().swish().tolist()
torch.swish(x, 2.0).sum().backward()
z = x.detach().requires_grad_()
(z * torch.sigmoid(2 * z)).sum().backward()
assert torch.allclose(x.grad, z.grad)
layer = torch.nn.Swish(2.0)
assert torch.equal(layer(x), torch.swish(x, 2.0)) and list(layer.state_dict()) == ["beta"]
assert torch.swish.__module__ == "plugrad_swish" and torch.nn.Swish.__module__ == "plugrad_swish"
assert "swish" in dir(torch.ops)
"""
    output(program, *example(tmp_path, "plugrad-swish"))


def test_the_in_place_form_is_enough_to_load_a_plugin(tmp_path):
    program = "import plugrad as p; x = p.ones(2); x.swish_(); assert p.allclose(x, p.sigmoid(p.ones(2))), x"
    output(program, *example(tmp_path, "plugrad-swish"))


def test_an_optimizer_and_a_loss_of_a_third_party(tmp_path):
    program = """
import sys, plugrad as torch
from plugrad.optim import Lion
assert "plugrad_lion.loss" not in sys.modules
w = torch.tensor([1.0, -2.0], requires_grad=True)
torch.nn.LogCoshLoss()(w, torch.zeros(2)).backward()
Lion([w], lr=0.5).step()
assert w.tolist() == [0.5, -1.5]
assert torch.nn.functional.log_cosh_loss(w, w).item() == 0
"""
    output(program, *example(tmp_path, "plugrad-lion"))


def test_what_a_kernel_returns_must_be_arrays(tmp_path):
    returned = {"none": "None", "text": "'text'", "list": "[input, input]", "tensor": "plugrad.ones(2)"}
    cases = list(itertools.product(("op", "unary", "binary", "reduction"), returned))
    for family, what in cases:
        name = f"{family}_{what}"
        source = f"""
import plugrad
from plugrad.extend import *

@{family}(vjp=None)
def {name}(xp, input{", other" * (family == "binary")}):
    return {returned[what]}

@hookimpl
def plugrad_ops():
    return [{name}]
"""
        entries = {"plugrad.ops": {name: f"plugin_{name}"}}
        build(tmp_path, f"plugrad-{name.replace('_', '-')}", entries, **{f"plugin_{name}": source})
    program = f"""
import plugrad
for family, what in {cases!r}:
    for dtype in (plugrad.float32, plugrad.int64, plugrad.complex64):
        name, x = f"{{family}}_{{what}}", plugrad.ones(2, dtype=dtype)
        op, distribution = f"{{name}}.{{name}}", f"plugrad-{{family}}-{{what}}"
        try:
            getattr(plugrad, name)(*[x] * (1 + (family == "binary")))
        except TypeError as error:
            told = str(error)
            assert f"the kernel of op {{op!r}} of {{distribution}} returned" in told, error
            assert "must return an array" in told, error
        else:
            raise SystemExit(f"nothing said for {{name}}, {{dtype}}")
"""
    output(program, tmp_path)


def test_a_package_that_is_imported_before_plugrad_registers_itself(tmp_path):
    build(tmp_path, "plugrad-first", {"plugrad": {"first": "plugrad_first"}}, plugrad_first=op_module("first"))
    output("import plugrad_first, plugrad; assert plugrad.first(plugrad.ones(1)).item() == 2", tmp_path)


def test_two_plugins_of_one_distribution_are_told_apart(tmp_path):
    points = {"plugrad.ops": {"one": "plugin_one", "two": "plugin_two"}}
    build(tmp_path, "plugrad-both", points, plugin_one=op_module("one"), plugin_two=op_module("two"))
    program = """
import sys, plugrad
plugrad.two(plugrad.ones(1))
assert "plugin_one" not in sys.modules
assert plugrad.registry.op("both.one").name == "one" and plugrad.registry.op("one").qualname == "both.one"
"""
    output(program, tmp_path)


def test_a_hidden_op_of_a_third_party_serves_its_formulas(tmp_path):
    source = op_module("tripled") + '''
tripled.formulas.clear()

@tripled.vjp
def tripled_vjp(F, g):
    return F.tripled_grad(g)

@unary(at=())
def tripled_grad(xp, g):
    """What the formula of tripled needs."""
    return 3 * g

@tripled_grad.vjp
def tripled_grad_vjp(F, g):
    return 3 * g
'''
    build(tmp_path, "plugrad-tripled", {"plugrad.ops": {"tripled": "plugrad_tripled"}}, plugrad_tripled=source)
    program = """
import plugrad
x = plugrad.ones(2, requires_grad=True)
plugrad.tripled(x).sum().backward()
assert x.grad.tolist() == [3, 3]
(g,) = plugrad.autograd.grad(plugrad.tripled(x).sum(), x, create_graph=True)
assert g.tolist() == [3, 3]
"""
    output(program, tmp_path)


def test_a_second_copy_of_a_distribution_is_ignored(tmp_path):
    new = build(tmp_path / "new", "plugrad-g", {"plugrad.ops": {"g": "plugrad_g"}}, "2.0", plugrad_g=op_module("g"))
    old = build(tmp_path / "old", "Plugrad_G", {"plugrad.ops": {"g": "plugrad_old", "h": "plugrad_old"}})
    program = "import plugrad; plugrad.g(plugrad.ones(1)); assert not hasattr(plugrad, 'h')"
    program += "; print(plugrad.registry.loader.plugins['plugrad-g:g'].version)"
    assert output(program, new, old) == "2.0\n"


# ---------------------------------------------------------------------------------------------------- cost


def test_a_hundred_packages_are_not_imported(tmp_path):
    bomb = "raise RuntimeError('imported')"
    for i in range(100):
        points = {"plugrad.ops": {f"op{i}": f"crowd{i}"}, "plugrad.optimizers": {f"Opt{i}": f"crowd{i}"}}
        build(tmp_path, f"plugrad-crowd{i}", points, **{f"crowd{i}": bomb})
    output("import sys, plugrad; assert not any(m.startswith('crowd') for m in sys.modules)", tmp_path)
    code = "import sys; from plugrad.cli import main; sys.argv = ['plugrad', 'ops', 'op9']; main()"
    done = run(code, tmp_path)
    assert done.returncode == 0 and "plugrad-crowd99" in done.stdout and "imported" not in done.stderr
