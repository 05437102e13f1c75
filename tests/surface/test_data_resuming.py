"""A loader goes on in the middle of an epoch, and so does training: to the same parameters, bit for bit."""

import subprocess
import sys

import pytest

import plugrad as torch
from plugrad.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from support.distribution_builder import ROOT

ITEMS = range(23)


def seeded():
    return torch.Generator().manual_seed(5)


LOADERS = {
    "in order": lambda: DataLoader(ITEMS, batch_size=4),
    "shuffled": lambda: DataLoader(ITEMS, batch_size=4, shuffle=True),
    "generator": lambda: DataLoader(ITEMS, batch_size=4, shuffle=True, generator=seeded()),
    "its sampler's": lambda: DataLoader(ITEMS, batch_size=3, sampler=RandomSampler(ITEMS, generator=seeded())),
    "replacement": lambda: DataLoader(ITEMS, batch_size=4, sampler=RandomSampler(ITEMS, True, 70)),
    "subset": lambda: DataLoader(ITEMS, batch_size=2, sampler=SubsetRandomSampler(range(3, 15))),
    "weighted": lambda: DataLoader(ITEMS, batch_size=4, sampler=WeightedRandomSampler([1.0, 2.0] * 10, 20)),
    "batches": lambda: DataLoader(ITEMS, batch_sampler=BatchSampler(RandomSampler(ITEMS), 4, True)),
    "single items": lambda: DataLoader(ITEMS, batch_size=None, shuffle=True),
    "several processes": lambda: DataLoader(ITEMS, batch_size=4, sampler=DistributedSampler(ITEMS, 2, 1)),
    "workers": lambda: DataLoader(ITEMS, batch_size=4, shuffle=True, num_workers=2),
    "persistent workers": lambda: DataLoader(ITEMS, batch_size=4, shuffle=True, num_workers=1, persistent_workers=True),
}


def lists(batches):
    return [batch.tolist() if isinstance(batch, torch.Tensor) else batch for batch in batches]


@pytest.mark.parametrize("stop", [0, 1, 3])
@pytest.mark.parametrize("make", LOADERS.values(), ids=LOADERS)
def test_the_rest_of_an_epoch_and_the_next_are_the_same(make, stop):
    torch.manual_seed(1)
    first = make()
    next(iter(first))  # an epoch that is broken off
    batches = iter(first)
    for _ in range(stop):
        next(batches)
        torch.rand(3)  # what the program draws between the batches
    state, random = first.state_dict(), torch.get_rng_state()
    rest, following = lists(batches), lists(first)
    torch.manual_seed(99)
    second = make()
    second.load_state_dict(state)
    torch.set_rng_state(random)
    assert second.state_dict()["batches"] == stop
    assert lists(second) == rest and lists(second) == following
    assert stop + len(rest) == len(first)


def test_a_state_between_epochs_begins_the_next_one():
    first = LOADERS["generator"]()
    lists(first)
    state = first.state_dict()
    following = lists(first)
    second = LOADERS["generator"]()
    second.load_state_dict(state)
    assert state["batches"] == 0 and state["random"] is None and lists(second) == following


def test_the_epoch_of_a_distributed_sampler_is_kept():
    def make():
        return DataLoader(ITEMS, batch_size=4, sampler=DistributedSampler(ITEMS, 2, 0))

    first = make()
    first.sampler.set_epoch(3)
    batches = iter(first)
    next(batches)
    second = make()
    second.load_state_dict(first.state_dict())
    assert lists(second) == lists(batches) and second.sampler.epoch == 3


def test_a_stream_is_passed_over():
    class Stream(IterableDataset):
        def __iter__(self):
            for number in range(10):
                yield number + torch.rand(()).item()

    first = DataLoader(Stream(), batch_size=3)
    batches = iter(first)
    next(batches)
    state, random = first.state_dict(), torch.get_rng_state()
    rest = lists(batches)
    second = DataLoader(Stream(), batch_size=3)
    second.load_state_dict(state)
    torch.set_rng_state(random)
    assert lists(second) == rest and len(rest) == 3


def test_nothing_is_loaded_for_what_is_passed_over():
    class Counting:
        asked = 0

        def __len__(self):
            return 12

        def __getitem__(self, index):
            self.asked += 1
            return index

    first = DataLoader(Counting(), batch_size=4)
    batches = iter(first)
    next(batches), next(batches)
    second = DataLoader(Counting(), batch_size=4)
    second.load_state_dict(first.state_dict())
    assert lists(second) == [[8, 9, 10, 11]] and second.dataset.asked == 4


def test_states_are_plain_data_and_others_are_refused(tmp_path):
    loader = LOADERS["generator"]()
    next(iter(loader))
    torch.save(loader.state_dict(), tmp_path / "loader.pt")
    again = torch.load(tmp_path / "loader.pt")
    assert again.keys() == loader.state_dict().keys() and again["batches"] == 1
    with pytest.raises(ValueError, match="no state of a DataLoader"):
        loader.load_state_dict({"epoch": 3})
    with pytest.raises(ValueError, match="with generator="):
        LOADERS["shuffled"]().load_state_dict(again)


def test_training_that_is_resumed_ends_with_the_same_parameters():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 5), torch.randn(40, 1))

    def make():
        torch.manual_seed(2)
        model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        return model, torch.optim.Adam(model.parameters()), DataLoader(data, batch_size=8, shuffle=True)

    def train(model, optimizer, loader, epochs, saved=None, at=None):
        step = 0
        for _ in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                (model(x) - y).square().mean().backward()
                optimizer.step()
                step += 1
                if step == at:
                    parts = model.state_dict(), optimizer.state_dict(), loader.state_dict()
                    saved.update(parts=[torch.utils._pytree.tree_map(copied, part) for part in parts])
                    saved["random"] = torch.get_rng_state()
        return [parameter.detach().clone() for parameter in model.parameters()]

    def copied(value):
        return value.clone() if isinstance(value, torch.Tensor) else value

    saved: dict = {}
    expected = train(*make(), 3, saved, at=8)  # in the middle of the second epoch
    again = make()
    for part, state in zip(again, saved["parts"]):
        part.load_state_dict(state)
    torch.set_rng_state(saved["random"])
    assert all(torch.equal(a, b) for a, b in zip(expected, train(*again, 2)))


def test_the_example_goes_on_after_it_was_killed(tmp_path):
    def run(*words):
        command = [sys.executable, str(ROOT / "examples" / "resume.py"), "--checkpoint", str(tmp_path / "run.pt")]
        return subprocess.run([*command, *words], capture_output=True, text=True, timeout=300)

    whole = run("--epochs", "2")
    assert whole.returncode == 0, whole.stderr
    (tmp_path / "run.pt").unlink()
    killed = run("--epochs", "2", "--stop-after", "47")
    assert killed.returncode != 0 and "parameters" not in killed.stdout
    resumed = run("--epochs", "2", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "goes on" in resumed.stdout and resumed.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1]
