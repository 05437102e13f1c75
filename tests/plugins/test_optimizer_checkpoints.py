"""States of optimizers: loading, copies, pickles, hooks, and whose state is whose."""

import copy
import pickle

import numpy
import pytest

import plugrad
from support.parameters import one, parameter, values

optim = plugrad.optim


def trained(name="Adam", count=2):
    params = [one(float(i), 1.0 + i) for i in range(count)]
    optimizer = getattr(optim, name)([(f"p{i}", p) for i, p in enumerate(params)])
    optimizer.step()
    return optimizer, params


def test_loading_copies():
    optimizer, _ = trained()
    other, (p, _) = trained()
    other.load_state_dict(optimizer.state_dict())
    other.step()
    assert optimizer.state_dict()["state"][0]["step"].item() == 1
    assert other.state[p]["step"].item() == 2


def test_state_follows_names():
    optimizer, _ = trained()
    first, second = one(), one()
    other = optim.Adam([("p1", first), ("p0", second)])
    other.load_state_dict(optimizer.state_dict())
    assert other.state[first]["exp_avg"].item() == pytest.approx(0.2)
    assert other.state[second]["exp_avg"].item() == pytest.approx(0.1)
    assert other.param_groups[0]["param_names"] == ["p1", "p0"]
    unnamed = optim.Adam([one(), one()])
    unnamed.load_state_dict(optimizer.state_dict())
    assert unnamed.param_groups[0]["param_names"] == ["p0", "p1"]


def moments(groups, saved):
    """Load what was saved of named groups into others; return {name: the gradient that its moments are of}."""

    def build(library, shown):
        made = [[(name, library.nn.Parameter(library.ones(1))) for name in names] for names in shown]
        return made, library.optim.Adam([{"params": pairs} for pairs in made])

    results = []
    for library in pytest.importorskip("torch"), plugrad:
        made, optimizer = build(library, saved)
        for number, (_, p) in enumerate(pair for pairs in made for pair in pairs):
            p.grad = library.full((1,), number + 1.0)
        optimizer.step()
        other_made, other = build(library, groups)
        before = other.state_dict()
        try:
            other.load_state_dict(optimizer.state_dict())
        except ValueError as error:
            assert other.state_dict() == before
            results.append(str(error))
            continue
        results.append({n: round(other.state[p]["exp_avg"].item() * 10) for pairs in other_made for n, p in pairs})
        assert [g["param_names"] for g in other.param_groups] == groups or library is not plugrad
    return results


@pytest.mark.parametrize(
    "saved, groups, expected",
    [
        (["abc"], ["abc"], {"a": 1, "b": 2, "c": 3}),
        (["abc"], ["cab"], {"c": 3, "a": 1, "b": 2}),
        (["ab", "cd"], ["ac", "bd"], {"a": 1, "c": 3, "b": 2, "d": 4}),
        (["abc"], ["abd"], {"a": 1, "b": 2, "d": 3}),
        (["abc"], ["xyz"], {"x": 1, "y": 2, "z": 3}),
        (["abc"], ["bad"], "'c', 'd'"),
        (["abc"], ["cbd"], "'a', 'd'"),
        (["abcd"], ["xayz"], "'b', 'c'"),
        (["ab", "c"], ["ax", "b"], "'c', 'x'"),
        (["aab"], ["aba"], "twice"),
        (["aab"], ["aab"], None),
    ],
)
def test_state_follows_names_or_is_refused(saved, groups, expected):
    """PyTorch goes by position in each case: the moments of another parameter."""
    theirs, ours = moments([[*names] for names in groups], [[*names] for names in saved])
    if isinstance(expected, str):
        assert "another order" in ours and expected in ours
    elif expected is None:
        assert ours == theirs
    else:
        assert ours == expected and list(theirs.values()) == list(range(1, len(theirs) + 1))


def test_loading_what_does_not_fit_changes_nothing():
    optimizer, params = trained()
    before = copy.deepcopy(optimizer.state_dict())
    wide = parameter(numpy.ones(2, numpy.float32))
    wide.grad = plugrad.tensor([1.0, 1.0])
    other = optim.Adam([params[0], wide])
    other.step()
    with pytest.raises(ValueError, match=r"of shape \(2,\) for a parameter of shape \(1,\)"):
        optimizer.load_state_dict(other.state_dict())
    with pytest.raises(KeyError, match="what the state of an optimizer holds; this dict has '0.weight', '0.bias'"):
        optimizer.load_state_dict({"0.weight": wide, "0.bias": wide})
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimizer.load_state_dict({"state": {}, "param_groups": []})
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0]}]})
    after = optimizer.state_dict()
    assert before["param_groups"] == after["param_groups"]
    assert before["state"][0]["exp_avg"].item() == after["state"][0]["exp_avg"].item()


def test_a_step_that_is_a_number_as_in_old_checkpoints():
    optimizer, (p, _) = trained()
    state = optimizer.state_dict()
    state["state"][0]["step"] = 1
    state["state"][1]["step"] = 1
    optimizer.load_state_dict(state)
    optimizer.step()
    assert optimizer.state[p]["step"].item() == 2


def test_state_dict_hooks():
    optimizer, _ = trained()
    seen = []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("pre"))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    state = optimizer.state_dict()
    assert seen == ["first", "pre"]
    assert state["more"] == 1
    optimizer.register_load_state_dict_pre_hook(lambda o, state: seen.append(state.pop("more")))
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    optimizer.load_state_dict(state)
    assert seen[2:] == [1, "loaded"]
    assert state["more"] == 1


def test_copies_and_pickles_go_on_alike():
    for duplicate in (copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))):
        optimizer, params = trained()
        other = duplicate(optimizer)
        copies = other.param_groups[0]["params"]
        for p, grad in zip(copies, params, strict=True):
            p.grad = grad.grad
        optimizer.step()
        other.step()
        assert [values(p).item() for p in params] == [values(p).item() for p in copies]
        assert other.state[copies[0]]["step"].item() == 2


def test_names_of_a_state_are_taken_over_by_position():
    """An optimizer without names can't tell another order: PyTorch's loads by position, and then has the names."""
    torch = pytest.importorskip("torch")
    seen = []
    for library in (plugrad, torch):
        (first, second), unnamed = [[library.nn.Parameter(library.ones(1)) for _ in "ab"] for _ in range(2)]
        optimizer, other = library.optim.Adam([("b", first), ("a", second)]), library.optim.Adam(unnamed)
        first.grad, second.grad = library.ones(1), library.ones(1) * 2
        optimizer.step()
        other.load_state_dict(optimizer.state_dict())
        moments = [round(other.state[p]["exp_avg"].item() * 10) for p in unnamed]
        seen.append((moments, other.param_groups[0]["param_names"]))
    assert seen[0] == seen[1] == ([1, 2], ["b", "a"])


@pytest.mark.parametrize("wrong", [numpy.array(["a"]), "a", 3, None, [[0]], numpy.array([[0]])], ids=repr)
def test_indices_of_a_state_are_a_list_of_what_can_be_a_key(wrong):
    (optimizer, (p,)), state = trained(count=1), trained(count=1)[0].state_dict()
    state["param_groups"][0]["params"] = wrong
    before = optimizer.state[p]["exp_avg"].item()
    if isinstance(wrong, numpy.ndarray) and wrong.ndim == 1:  # as PyTorch: keys without a state
        optimizer.load_state_dict(state)
        assert not optimizer.state[p]
        return
    with pytest.raises(TypeError, match="'params' of a group is a list of indices"):
        optimizer.load_state_dict(state)
    assert optimizer.state[p]["exp_avg"].item() == before


@pytest.mark.parametrize("groups", [3, [3], [{}]], ids=repr)
def test_groups_of_a_state_are_dicts_with_indices(groups):
    optimizer, _ = trained(count=1)
    with pytest.raises((TypeError, KeyError), match="'param_groups' is a list of dicts|'params', the list of indices"):
        optimizer.load_state_dict({**optimizer.state_dict(), "param_groups": groups})


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad"])
def test_a_rate_that_was_taken_away_is_refused_before_anything_is_written(name):
    optimizer, (p,) = trained(name, count=1)
    optimizer.param_groups[0]["lr"], before = None, p.item()
    state = {key: float(value) for key, value in optimizer.state[p].items() if value is not None}
    with pytest.raises(TypeError, match="lr must be a number, not NoneType"):
        optimizer.step()
    assert p.item() == before and state == {k: float(v) for k, v in optimizer.state[p].items() if v is not None}


def stepped(name, **options):
    """Return an optimizer of a class after one step, and its parameter."""
    p = plugrad.nn.Parameter(plugrad.tensor([[1.0, -2.0], [0.5, 3.0]]))
    optimizer = getattr(optim, name)([p], **options)
    p.grad = plugrad.ones(2, 2)
    optimizer.step()
    return optimizer, p


@pytest.mark.parametrize("name", "SGD Adam AdamW RMSprop Adagrad NAdam RAdam Rprop Adadelta ASGD".split())
def test_a_state_of_an_older_version_lacks_options(name):
    first, p = stepped(name)
    whole = first.state_dict()
    for option in set(whole["param_groups"][0]) - {"params"}:
        second, q = stepped(name)
        (group,) = whole["param_groups"]
        second.load_state_dict({**whole, "param_groups": [{k: v for k, v in group.items() if k != option}]})
        assert second.param_groups[0][option] == group[option]
        second.step()
    first.step()
    assert plugrad.equal(p, q)


def test_options_of_another_optimizer_are_refused_before_anything_is_changed():
    adam, _ = stepped("Adam")
    for name in ("SGD", "RMSprop", "Rprop"):
        other, p = stepped(name)
        before = other.state_dict()
        with pytest.raises(ValueError, match=f"betas.*it was saved from, here it is {name}"):
            other.load_state_dict(adam.state_dict())
        assert str(other.state_dict()) == str(before)
        other.step()


def test_options_that_schedulers_add_are_nobody_elses():
    first, _ = stepped("Adam")
    optim.lr_scheduler.StepLR(first, 1)
    state = first.state_dict()
    del state["param_groups"][0]["decoupled_weight_decay"]
    second, _ = stepped("Adam")
    second.load_state_dict(state)
    second.step()
    assert second.param_groups[0]["initial_lr"] == 0.001
