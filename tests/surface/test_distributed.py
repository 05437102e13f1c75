"""`torch.distributed` with one process, beside PyTorch's."""

import pytest
import torch

import plugrad

BOTH = pytest.mark.parametrize("library", [torch, plugrad], ids=["torch", "plugrad"])


@pytest.fixture(autouse=True)
def no_group_is_left(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    yield
    for library in (torch, plugrad):
        if library.distributed.is_initialized():
            library.distributed.destroy_process_group()


def begin(library):
    store = {"store": torch.distributed.HashStore()} if library is torch else {}
    library.distributed.init_process_group("gloo", rank=0, world_size=1, **store)
    return library.distributed


@BOTH
def test_a_group_begins_and_ends(library):
    dist = library.distributed
    assert not dist.is_initialized() and dist.group.WORLD is None
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.get_rank()
    begin(library)
    assert dist.is_available() and dist.is_initialized()
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    assert dist.group.WORLD is dist.GroupMember.WORLD and dist.get_process_group_ranks(dist.group.WORLD) == [0]
    with pytest.raises(ValueError, match="twice"):
        begin(library)
    assert dist.get_world_size(dist.new_group([0])) == 1
    dist.destroy_process_group()
    assert not dist.is_initialized() and dist.group.WORLD is None


@BOTH
def test_collectives_give_what_the_process_has(library):
    dist, x = begin(library), library.tensor([1.0, 2.0])
    empty = lambda: library.zeros(2)  # noqa: E731
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT):
        assert dist.all_reduce(x, op=op) is None and x.tolist() == [1.0, 2.0]
    work = dist.all_reduce(x, async_op=True)
    assert work.wait() and work.is_completed()
    dist.broadcast(x, src=0)
    dist.reduce(x, dst=0)
    dist.barrier()
    for name in ("all_gather", "gather", "all_to_all"):
        targets = [empty()]
        getattr(dist, name)(targets, [x] if name == "all_to_all" else x) if name != "gather" else dist.gather(
            x, targets
        )
        assert targets[0].tolist() == [1.0, 2.0]
    for name, source in (("scatter", [x]), ("reduce_scatter", [x]), ("all_gather_single", x)):
        target = empty()
        getattr(dist, name)(target, source)
        assert target.tolist() == [1.0, 2.0]
    objects = [None]
    dist.all_gather_object(objects, {"a": 1})
    dist.broadcast_object_list(objects, src=0)
    assert objects == [{"a": 1}]


@BOTH
def test_what_names_another_process_is_refused(library):
    dist, x = begin(library), library.ones(2)
    with pytest.raises(RuntimeError, match="invalid root rank: 1"):
        dist.broadcast(x, src=1)
    with pytest.raises(RuntimeError, match="expected length 1"):
        dist.all_gather([library.zeros(2)] * 2, x)
    with pytest.raises(TypeError):
        dist.all_reduce("x")


@BOTH
def test_a_model_is_trained_by_one_process(library):
    begin(library)
    library.manual_seed(0)
    model = library.nn.parallel.DistributedDataParallel(library.nn.Linear(2, 1))
    model(library.ones(3, 2)).sum().backward()
    assert model.module.weight.grad.tolist() == [[3.0, 3.0]] and "module.bias" in model.state_dict()
    sampler = library.utils.data.distributed.DistributedSampler(range(5), shuffle=False)
    assert (sampler.num_replicas, sampler.rank, list(sampler)) == (1, 0, [0, 1, 2, 3, 4])


def test_more_processes_are_refused_with_a_reason(monkeypatch):
    dist = plugrad.distributed
    with pytest.raises(NotImplementedError, match="one process, not of 2: there is no transport"):
        dist.init_process_group("gloo", rank=0, world_size=2)
    with pytest.raises(ValueError, match="RANK expected, but not set"):
        dist.init_process_group("gloo")
    with pytest.raises(ValueError, match="Invalid backend"):
        dist.init_process_group("pigeons", rank=0, world_size=1)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    dist.init_process_group()
    with pytest.raises(NotImplementedError, match="no other one to talk to"):
        dist.send(plugrad.ones(1), 1)
