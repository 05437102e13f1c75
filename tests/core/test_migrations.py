"""States of older layouts are migrated, those of later ones refused, and plans change nothing."""

from collections import OrderedDict

import pytest

import plugrad
from plugrad import nn


class First(nn.Module):
    """A layer as its first version was."""

    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(plugrad.tensor([1.0, 2.0]))
        self.inner = nn.Linear(2, 1, bias=False)


class Scale(nn.Module):
    """The layer today: its weight has another name since version 2, its submodule since version 3."""

    state_version = 3
    migrations = {
        1: lambda state: {"weight" if key == "gamma" else key: value for key, value in state.items()},
        2: lambda state: {key.replace("inner.", "linear."): value for key, value in state.items()},
    }

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(plugrad.zeros(2))
        self.linear = nn.Linear(2, 1, bias=False)


def old(prefix=""):
    torso = nn.Sequential(OrderedDict(a=First(), b=nn.Linear(2, 2))) if prefix else First()
    return torso.state_dict()


def test_a_state_is_migrated_step_by_step():
    module, state = Scale(), old()
    assert str(module.load_state_dict(state)) == "<All keys matched successfully>"
    assert module.weight.tolist() == [1.0, 2.0] and plugrad.equal(module.linear.weight, state["inner.weight"])
    assert module.state_dict()._metadata[""] == {"version": 3}


def test_inside_of_a_model_only_the_own_names_are_seen():
    model, state = nn.Sequential(OrderedDict(a=Scale(), b=nn.Linear(2, 2))), old("a")
    model.load_state_dict(state)
    assert model.a.weight.tolist() == [1.0, 2.0] and plugrad.equal(model.b.weight, state["b.weight"])
    model.load_state_dict(model.state_dict())  # of the present version


def test_it_goes_through_a_file(tmp_path):
    plugrad.save(old(), tmp_path / "old.pt")
    module = Scale()
    module.load_state_dict(plugrad.load(tmp_path / "old.pt"))
    assert module.weight.tolist() == [1.0, 2.0]


def test_later_layouts_gaps_and_wrong_migrations_are_refused():
    module, state = Scale(), Scale().state_dict()
    state._metadata[""]["version"] = 4
    with pytest.raises(RuntimeError, match="layout 4, and Scale knows layouts up to 3: install"):
        module.load_state_dict(state)
    gap = type("Gap", (Scale,), {"migrations": {1: Scale.migrations[1]}})()
    with pytest.raises(RuntimeError, match="no migration leads from 2 to 3"):
        gap.load_state_dict(old())
    wrong = type("Wrong", (Scale,), {"migrations": {1: lambda state: None}})()
    with pytest.raises(TypeError, match="must return the state as a dict, not NoneType"):
        wrong.load_state_dict(old())
    assert wrong.weight.tolist() == gap.weight.tolist() == [0.0, 0.0]


def test_a_plain_dict_is_taken_as_it_is():
    module = Scale()
    module.load_state_dict(dict(Scale().state_dict()))
    with pytest.raises(RuntimeError, match="Missing key"):
        module.load_state_dict(dict(old()))


def test_a_plan_changes_nothing_and_says_what_would_happen():
    module = Scale()
    plan = module.load_state_dict(old(), plan=True)
    assert plan.fits and plan.loaded == ["weight", "linear.weight"] and plan.migrations == ["Scale: 1 -> 3"]
    assert module.weight.tolist() == [0.0, 0.0] and "2 of 2 names would be loaded" in str(plan)
    bad = {"weight": plugrad.ones(5), "other": plugrad.ones(1)}
    plan = module.load_state_dict(bad, plan=True)
    assert not plan.fits and plan.missing_keys == ["linear.weight"] and plan.unexpected_keys == ["other"]
    assert plan.loaded == [] and "size mismatch for weight" in plan.errors[0]
    assert not module._load_state_dict_post_hooks
    for line in ("missing: linear.weight", "unexpected: other", "does not fit: size mismatch"):
        assert line in str(plan)
