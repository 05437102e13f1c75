"""The names of third parties: where they appear, what is promised, and what looks at them without loading anything."""

import pickle

import pytest

import plugrad as torch
from plugrad import registry
from support.distribution_builder import build, command, example, op_module, output, run


def install(folder, name, source, *promised):
    """Install a plugin whose one module brings ops under these names of entry points."""
    module = f"plugin_{name}"
    return build(folder, f"plugrad-{name}", {"plugrad.ops": dict.fromkeys(promised, module)}, **{module: source})


# -------------------------------------------------------------------------------------------- places and aliases


def test_an_op_in_another_place_and_under_two_names_is_promised_by_them(tmp_path):
    options = "at=('special.first', 'linalg.first')"
    install(tmp_path, "one", op_module("first", "input + 1", options), "special.first", "linalg.first")
    install(tmp_path, "two", op_module("second", "input + 2", "aliases=('zweite',)"), "second", "zweite")
    for use, value in {
        "torch.special.first(x)": 1, "torch.linalg.first(x)": 1, "torch.ops.one.first(x)": 1, "torch.zweite(x)": 2,
        "x.zweite()": 2, "x.second()": 2, "torch.ops.two.second(x)": 2,
    }.items():  # fmt: skip
        printed = output(f"import plugrad as torch; x = torch.zeros(1); print(({use}).item())", tmp_path)
        assert printed == f"{value:.1f}\n", use
    program = """
import sys, plugrad as torch
assert "first" in dir(torch.special) and "first" not in dir(torch) and "plugin_one" not in sys.modules
assert not hasattr(torch, "first") and not hasattr(torch.zeros(1), "first")
"""
    output(program, tmp_path)
    assert "special.first" in command("ops", "first", paths=[tmp_path]).stdout
    said = command("why", "special.first", paths=[tmp_path]).stdout
    assert "plugrad.special.first: promised by plugrad-one:linalg.first" in said


LISTED = """
import plugrad as torch
def listed():
    homes = {"": torch, "Tensor": torch.Tensor, "F": torch.nn.functional, "x": torch.ones(1)}
    return [home for home, where in homes.items() if "shown" in dir(where)]
before = listed()
torch.registry.load(torch.registry.plugins["plugrad-one:NAME"])
assert listed() == [home for home, where in (("", torch), ("Tensor", torch.Tensor), ("F", torch.nn.functional),
                                             ("x", torch.ones(1))) if hasattr(where, "shown")]
print(before, listed(), torch.ops.one.shown(torch.ones(1)).item(), hasattr(torch.Tensor, "shown_"))
from plugrad.catalog import why
print([line.partition(":")[0] for line in why.explain("shown")])
"""


@pytest.mark.parametrize(
    ("promised", "at", "before", "after"),
    [
        ("shown", "", ["", "Tensor", "F", "x"], ["", "Tensor", "x"]),
        ("shown", "at=('Tensor.shown',)", ["", "Tensor", "F", "x"], ["Tensor", "x"]),
        ("shown", "at=('nn.functional.shown',)", ["", "Tensor", "F", "x"], ["F"]),
        ("shown", "at=('shown',)", ["", "Tensor", "F", "x"], [""]),
        ("Tensor.shown", "at=('Tensor.shown',)", ["Tensor", "x"], ["Tensor", "x"]),
        ("nn.functional.shown", "at=('nn.functional.shown',)", ["F"], ["F"]),
    ],
)
def test_what_is_listed_is_there(tmp_path, promised, at, before, after):
    """A name without a place stands for three until the op is loaded; with its place it stands for that."""
    install(tmp_path, "one", op_module("shown", "input + 1", at), promised)
    first, second = output(LISTED.replace("NAME", promised), tmp_path).splitlines()
    assert first == f"{before} {after} 2.0 True"
    places = {"": "plugrad.shown", "Tensor": "plugrad.Tensor.shown", "F": "plugrad.nn.functional.shown"}
    assert second == str([places[home] for home in after if home != "x"] + ["plugrad.ops.one.shown"])


def test_places_that_are_promised_have_to_be_all_of_them(tmp_path):
    install(tmp_path, "one", op_module("outer_part"), "Tensor.outer_part")
    said = run("import plugrad; plugrad.ops.one.outer_part", tmp_path).stderr
    assert "it brings 'outer_part', which no entry point promises: add `outer_part = " in said
    install(tmp_path / "two", "two", op_module("buried", "input + 1", "at=()"), "buried")
    said = run("import plugrad; plugrad.buried", tmp_path / "two").stderr
    assert "'buried' has no public name, at=(): take the entry point out" in said


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("plugrad.ops/a-b", "its entry point 'a-b' of plugrad.ops is not a Python name"),
        ("plugrad.ops/lambda", "its entry point 'lambda' of plugrad.ops is not a Python name"),
        ("plugrad.ops/__add__", "its entry point '__add__' of plugrad.ops is not a Python name"),
        ("plugrad.layers/a.b", "its entry point 'a.b' of plugrad.layers is not a Python name"),
        ("plugrad.ops/my.own", "can't be: ops are public in plugrad, plugrad.Tensor, plugrad.nn.functional"),
        ("plugrad_ops/op", "there is no entry point group 'plugrad_ops'; did you mean 'plugrad.ops'?"),
        ("plugrad-layers/Layer", "there is no entry point group 'plugrad-layers'; did you mean 'plugrad.layers'?"),
    ],
)
def test_wrong_entry_points_are_said(tmp_path, entry, said):
    group, name = entry.split("/")
    build(tmp_path, "plugrad-wrong", {group: {name: "nowhere_at_all"}})
    done = run("import plugrad; assert (plugrad.ones(1) + 1).item() == 2", tmp_path)
    assert done.returncode == 0
    (line,) = done.stderr.strip().splitlines()
    assert "plugrad-wrong" in line and "failed at discovery: TypeError" in line and said in line


def test_groups_of_others_are_not_ours(tmp_path):
    build(tmp_path, "plugrad-own", {"plugrad_own.strategies": {"a": "b"}, "plugradder.ops": {"c": "d"}})
    output("import plugrad; assert not any('own' in name for name in plugrad.registry.loader.plugins)", tmp_path)


def test_a_distribution_with_one_of_our_modules_is_told_to_go(tmp_path):
    build(tmp_path, "plugrad-theirs", {"plugrad.ops": {"mine": "plugrad.plugins.ops.activation"}})
    said = run("import plugrad; plugrad.mine", tmp_path).stderr
    assert "is also that of plugrad:ops-activation" in said and "PLUGRAD_BLOCK=plugrad-theirs" in said


def test_namespaces_can_be_imported(tmp_path):
    install(tmp_path, "one", op_module("first"), "first")
    program = """
import sys
import plugrad.ops.one
assert "plugin_one" not in sys.modules
from plugrad.ops.one import first
assert first is plugrad.first and plugrad.ops.one.first is first
try:
    import plugrad.ops.onne
except ModuleNotFoundError as error:
    assert "plugrad.ops.onne" in str(error)
else:
    raise SystemExit("imported")
"""
    output(program, tmp_path)


# -------------------------------------------------------------------------------------------- browsing

LOOKING = """
import inspect, pydoc, rlcompleter, sys
import plugrad as torch
x = torch.ones(1)
for thing in (torch, torch.Tensor, torch.nn, torch.optim, torch.ops, torch.ops.one):
    pydoc.render_doc(thing)
    inspect.getmembers(thing)
completer = rlcompleter.Completer({"torch": torch, "x": x})
assert completer.complete("torch.goo", 0).startswith("torch.good") and completer.complete("x.goo", 0)
assert not any(name.startswith("plugin_") for name in sys.modules)
assert torch.good(x).item() == x.good().item() == x.good_().item() == 2
assert "good" in dict(inspect.getmembers(torch)) and "good" in pydoc.render_doc(torch.good)
"""


def test_help_and_completion_load_nothing(tmp_path):
    install(tmp_path, "one", op_module("good"), "good")
    install(tmp_path, "broken", "raise RuntimeError('broken')", "broken")
    output(LOOKING, tmp_path)


# -------------------------------------------------------------------------------------------- pickling

PICKLED = {
    "function": "torch.swish",
    "method": "torch.Tensor.swish",
    "in place": "torch.Tensor.swish_",
    "record": "torch.registry.op('swish')",
    "layer": "torch.nn.Swish()",
    "loss": "torch.nn.LogCoshLoss",
    "loss function": "torch.nn.functional.log_cosh_loss",
    "loss module": "torch.nn.LogCoshLoss()",
    "optimizer": "torch.optim.Lion([torch.ones(1, requires_grad=True)])",
}


def test_what_third_parties_bring_is_pickled_by_every_protocol(tmp_path):
    paths = *example(tmp_path, "plugrad-swish"), *example(tmp_path, "plugrad-lion")
    written = tmp_path / "pickles"
    program = f"""
import pickle, plugrad as torch
things = {{what: eval(code) for what, code in {PICKLED!r}.items()}}
pickles = {{(what, p): pickle.dumps(thing, p) for what, thing in things.items() for p in range(6)}}
assert all(repr(pickle.loads(data)) == repr(things[what]) for (what, _), data in pickles.items())
open({str(written)!r}, "wb").write(pickle.dumps(pickles))
"""
    output(program, *paths)
    again = f"""
import pickle, plugrad as torch
for (what, protocol), data in pickle.load(open({str(written)!r}, "rb")).items():
    loaded, code = pickle.loads(data), {PICKLED!r}[what]
    assert repr(loaded) == repr(eval(code)), what
    print(what, protocol)
"""
    assert len(output(again, *paths).splitlines()) == len(PICKLED) * 6


@pytest.mark.parametrize("protocol", range(6))
def test_ours_are_pickled_by_every_protocol(protocol):
    things = torch.relu, torch.Tensor.relu, torch.Tensor.relu_, torch.Tensor.t_, torch.relu_, registry.op("relu")
    for thing in things:
        assert pickle.loads(pickle.dumps(thing, protocol)) is thing


def test_a_record_that_is_not_registered_is_not_pickled():
    from plugrad.extend import unary

    record = unary(lambda xp, input: input, name="unregistered", vjp=None)
    with pytest.raises(TypeError, match="<Op unregistered .unary.> can't be pickled: it is not registered"):
        pickle.dumps(record)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("torch.swish", "plugrad.swish"),
        ("torch.Tensor.swish_", "plugrad.Tensor.swish_"),
        ("torch.nn.functional.relu", "plugrad.nn.functional.relu"),
        ("torch.Tensor.__rmul__", "plugrad.Tensor.__rmul__"),
    ],
)
def test_functions_are_named_as_users_write_them(tmp_path, code, name):
    program = f"import plugrad as torch; 2 * torch.ones(1); print(torch.overrides.resolve_name({code}))"
    assert output(program, *example(tmp_path, "plugrad-swish")) == f"{name}\n"
