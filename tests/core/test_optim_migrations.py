"""States of optimizers and schedules of older layouts are migrated, those of later ones refused."""

import pytest

import plugrad
from plugrad import optim


class Momentum(optim.Optimizer):
    """A plugin's optimizer as its first version was: its state is called "v", its option "mu"."""

    elementwise = True

    def __init__(self, params, lr=0.1, mu=0.9):
        super().__init__(params, dict(lr=lr, mu=mu))

    def slots(self, group):
        return {"v": self.zeros}

    def update(self, xp, p, g, state, group):
        state["v"] *= group["mu"]
        state["v"] += g
        p -= group["lr"] * state["v"]


def named_velocity(state):
    for own in state["state"].values():
        own["velocity"] = own.pop("v")
    return state


def named_momentum(state):
    groups = [{"momentum" if key == "mu" else key: value for key, value in g.items()} for g in state["param_groups"]]
    return {"state": state["state"], "param_groups": groups}


class Renamed(optim.Optimizer):
    """The optimizer today."""

    elementwise = True
    state_version = 3
    migrations = {1: named_velocity, 2: named_momentum}

    def __init__(self, params, lr=0.1, momentum=0.9):
        super().__init__(params, dict(lr=lr, momentum=momentum))

    def slots(self, group):
        return {"velocity": self.zeros}

    def update(self, xp, p, g, state, group):
        state["velocity"] *= group["momentum"]
        state["velocity"] += g
        p -= group["lr"] * state["velocity"]


def trained(cls, steps, state=None, start=(1.0, -2.0)):
    w = plugrad.tensor(start, requires_grad=True)
    optimizer = cls([w], lr=0.05)
    if state is not None:
        optimizer.load_state_dict(state)
    for _ in range(steps):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
    return w, optimizer


def test_training_goes_on_from_a_file_of_the_first_version(tmp_path):
    whole, _ = trained(Momentum, 5)
    w, first = trained(Momentum, 2)
    plugrad.save(first.state_dict(), tmp_path / "old.pt")
    before = first.state_dict()
    resumed, today = trained(Renamed, 3, plugrad.load(tmp_path / "old.pt"), w.tolist())
    assert plugrad.equal(whole, resumed) and "momentum" in today.param_groups[0]
    assert today.state_dict()["state_version"] == 3 and "state_version" not in before
    trained(Renamed, 1, before)  # what a migration changes is not the caller's state
    assert list(before["state"][0]) == ["v"] == list(first.state[w])
    plugrad.save(today.state_dict(), tmp_path / "new.pt")
    again, _ = trained(Renamed, 0, plugrad.load(tmp_path / "new.pt"))
    assert again.shape == (2,)


@pytest.mark.parametrize("version, options, error, message", [
    (4, {}, ValueError, "Renamed: its state has layout 4, and Renamed knows layouts up to 3: install"),
    (0, {}, ValueError, "no migration leads from 0 to 1"),
    (1, {"migrations": {1: named_velocity}}, ValueError, "no migration leads from 2 to 3"),
    (1, {"migrations": {1: lambda state: None}}, TypeError, "must return the state as a dict, not NoneType"),
    ("3", {}, ValueError, "its state has layout '3', which is no whole number"),
    (True, {}, ValueError, "its state has layout True, which is no whole number"),
])  # fmt: skip
def test_later_layouts_gaps_and_wrong_migrations_change_nothing(version, options, error, message):
    _, first = trained(Momentum, 2)
    _, today = trained(Renamed, 1)
    today.__class__ = type("Renamed", (Renamed,), options)
    before = repr(today.state_dict())
    with pytest.raises(error, match=message):
        today.load_state_dict({**first.state_dict(), "state_version": version})
    assert repr(today.state_dict()) == before


def test_a_class_without_a_version_refuses_the_state_of_one_that_has_changed():
    _, today = trained(Renamed, 1)
    with pytest.raises(ValueError, match="Momentum: its state has layout 3, and Momentum knows layouts up to 1"):
        trained(Momentum, 0, today.state_dict())


def test_ours_have_the_keys_that_pytorch_has():
    assert list(optim.SGD([plugrad.ones(1)], lr=1.0).state_dict()) == ["state", "param_groups"]


class Halving(optim.lr_scheduler.LRScheduler):
    """A schedule whose `period` was called `every` in its first version."""

    state_version = 2
    migrations = {1: lambda state: {"period" if key == "every" else key: value for key, value in state.items()}}

    def __init__(self, optimizer, period):
        self.period = period
        super().__init__(optimizer)

    def get_lr(self):
        return [base * 0.5 ** (self.last_epoch // self.period) for base in self.base_lrs]


def test_schedules_have_versions_too():
    optimizer = optim.SGD([plugrad.ones(1)], lr=1.0)
    schedule = Halving(optimizer, 2)
    state = schedule.state_dict()
    assert state["state_version"] == 2
    old = {"every" if key == "period" else key: 7 if key == "period" else value for key, value in state.items()}
    del old["state_version"]
    schedule.load_state_dict(old)
    assert schedule.period == 7 and not {"every", "state_version"} & vars(schedule).keys()
    schedule.load_state_dict(state)
    assert schedule.period == 2
    with pytest.raises(ValueError, match="Halving: its state has layout 5, and Halving knows layouts up to 2: install"):
        schedule.load_state_dict({**state, "state_version": 5})
