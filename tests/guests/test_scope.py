"""What a package's code calls is its own or plugrad's: never another package's, whatever is loaded or preferred."""

import pytest

from support.distribution_builder import build, output

IMPORTS = '''
from plugrad.extend import Op, collect, composite, hookimpl, op, unary
'''

HELPING = '''
@op({at}like="input")
def helping(xp, input):
    return {factor} * input

@helping.vjp
def helping_vjp(F, g):
    return {factor} * g
'''

USING = '''
@unary()
def helped_{name}(xp, input):
    return {factor} * input

@helped_{name}.vjp
def helped_vjp(F, g):
    return F.helping(g)

@composite
def composed_{name}(F, input):
    return F.helping(input)

@composite
def common(F, input):
    return F.helping(input)
'''

HOOK = '''
@hookimpl
def plugrad_ops():
    return collect(Op, globals())
'''

HELPED = IMPORTS + HELPING.replace("{at}", "at=(), ") + USING + HOOK

PROGRAM = """
import plugrad as torch
{first}
x = torch.ones(1, requires_grad=True)
for name in {order!r}:
    y = getattr(torch, f"helped_{{name}}")(x)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (raw,) = torch.autograd.grad(getattr(torch, f"helped_{{name}}")(x), x)
    (composed,) = torch.autograd.grad(getattr(torch, f"composed_{{name}}")(x), x)
    print(name, y.item(), g.item(), raw.item(), composed.item())
"""


def helped(folder, name, factor, more=""):
    points = {key: f"helped_{name}" for key in (f"helped_{name}", f"composed_{name}", "common")}
    source = HELPED.format(name=name, factor=factor) + more
    return build(folder / name, f"plugrad-{name}", {"plugrad.ops": points}, **{f"helped_{name}": source})


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scopes")
    return helped(folder, "one", 3), helped(folder, "two", 5)


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
@pytest.mark.parametrize("first", ["", "torch.registry.prefer('helping', 'plugrad-two')",
                                   "torch.registry.prefer('common', 'plugrad-one'); torch.common"])  # fmt: skip
def test_each_gradient_runs_its_own_helper(both, order, first):
    printed = output(PROGRAM.format(first=first, order=order), *both)
    lines = {"one": "one 3.0 3.0 3.0 3.0\n", "two": "two 5.0 5.0 5.0 5.0\n"}
    assert printed == "".join(lines[name] for name in order)


def test_formulas_find_an_op_of_another_module_of_their_distribution(tmp_path):
    helper = (IMPORTS + HELPING + HOOK).format(factor=3, at="")
    user = (IMPORTS + USING + HOOK).format(factor=3, name="split")
    points = {"helping": "split_helper", "helped_split": "split_user", "composed_split": "split_user"}
    points["common"] = "split_user"
    build(tmp_path, "plugrad-split", {"plugrad.ops": points}, split_helper=helper, split_user=user)
    assert output(PROGRAM.format(first="", order=["split"]), tmp_path) == "split 3.0 3.0 3.0 3.0\n"


def test_a_name_of_another_package_is_no_name_here_and_the_error_says_what_to_write(both, tmp_path):
    stranger = helped(tmp_path, "three", 7).parent / "three"
    source = (stranger / "helped_three.py").read_text()
    (stranger / "helped_three.py").write_text(source.replace("F.helping(g)", "F.helped_one(g)"))
    program = """
import plugrad as torch
torch.helped_one
x = torch.ones(1, requires_grad=True)
try:
    torch.helped_three(x).backward()
except AttributeError as error:
    print(error)
"""
    printed = output(program, *both, stranger)
    assert printed == (
        "there is no op named 'helped_one' among those of three and plugrad (one.helped_one is another package's: "
        "import its record, and write F(record))\n"
    )


def test_a_record_of_another_package_is_called_by_the_record(both, tmp_path):
    stranger = helped(tmp_path, "three", 7)
    source = (stranger / "helped_three.py").read_text()
    source = source.replace("F.helping(g)", "F(helped_one)(g)").replace("F.helping(input)", "F(helped_one)(input)")
    (stranger / "helped_three.py").write_text("from helped_one import helped_one\n" + source.replace(
        "collect(Op, globals())", "[one for one in collect(Op, globals()) if one is not helped_one]"))
    printed = output(PROGRAM.format(first="", order=["three", "one"]), *both, stranger)
    assert printed == "three 7.0 3.0 3.0 3.0\none 3.0 3.0 3.0 3.0\n"


@pytest.mark.parametrize("first", ["torch.helped_one", "torch.helped_thief"])
def test_returning_another_packages_record_does_not_steal_it(both, tmp_path, first):
    thief = "from helped_one import helped_one\n" + HELPED.format(name="thief", factor=7).replace(
        "collect(Op, globals())", "[helped_one, helped_thief]"
    )
    build(tmp_path, "plugrad-thief", {"plugrad.ops": {"helped_thief": "thief", "helped_one": "thief"}}, thief=thief)
    program = f"""
import plugrad as torch
torch.registry.prefer("helped_one", "plugrad-one")
for name in ({first.partition('.')[2]!r}, "helped_one", "helped_thief"):
    try:
        print(name, getattr(torch, name).__op__.provider.distribution)
    except torch.registry.PluginLoadError as error:
        print(name, "failed", "is of plugrad-one:" in str(error))
x = torch.ones(1, requires_grad=True)
torch.helped_one(x).backward()
print(x.grad)
"""
    lines = dict(helped_one="helped_one plugrad-one", helped_thief="helped_thief failed True")
    printed = output(program, both[0], tmp_path).splitlines()
    assert printed == [lines[first.partition(".")[2]], *lines.values(), "tensor([3.])"]


def test_the_layer_of_a_new_package_goes_on_when_another_brings_the_name(tmp_path):
    from support.distribution_builder import command

    command("new", "clipped", "--layer", "--init", "--directory", str(tmp_path), cwd=tmp_path)
    source = tmp_path / "plugrad-clipped" / "src"
    points = {"plugrad.ops": {"clipped": "plugrad_clipped.op"}, "plugrad.layers": {"Clipped": "plugrad_clipped.layer"},
              "plugrad.inits": {"clipped_": "plugrad_clipped.init"}}  # fmt: skip
    build(tmp_path / "installed", "plugrad-clipped", points)
    rival = HELPED.replace("common", "clipped").format(name="rival", factor=100)
    points = {name: "rival" for name in ("helped_rival", "composed_rival", "clipped")}
    build(tmp_path / "rival", "plugrad-rival", {"plugrad.ops": points}, rival=rival)
    program = """
import plugrad as torch
from plugrad.registry import AmbiguousNameError
layer = torch.nn.Clipped(2)
x = torch.tensor([0.0, 50.0], requires_grad=True)
layer(x).sum().backward()
print(layer(x).tolist(), x.grad.tolist(), torch.nn.init.clipped_(torch.empty(3, 5)).shape)
try:
    torch.clipped
except AmbiguousNameError:
    torch.registry.prefer("clipped", "plugrad-rival")
    print(layer(x).tolist(), torch.clipped(x).tolist())
"""
    printed = output(program, source, tmp_path / "installed", tmp_path / "rival")
    assert printed == "[0.0, 1.0] [1.0, 0.0] torch.Size([3, 5])\n[0.0, 1.0] [0.0, 5000.0]\n"
