"""`torch.distributed` with one process: a group of it alone, in which collectives give what it has.

Programs written for several processes run as one of them. A group of more refuses, since plugrad has no transport.
"""

from __future__ import annotations

import copy
import datetime
import enum
import os
from urllib.parse import parse_qs, urlsplit

from plugrad import Tensor, absent
from plugrad.torch_modules.futures import Future

__path__ = []  # below it are modules that are not there
__getattr__ = absent.attributes("distributed")
default_pg_timeout = datetime.timedelta(minutes=30)
_BACKENDS = ("gloo", "mpi", "nccl", "ucc", "xccl")


def is_available() -> bool:
    """Whether there is a group: no process was ever reached, so there is none."""
    return is_initialized()


is_gloo_available = is_available


def is_nccl_available() -> bool:
    """Always False: groups of one process exchange nothing, so all of them are "gloo"."""
    return False


is_mpi_available = is_ucc_available = is_xccl_available = is_nccl_available


def is_torchelastic_launched() -> bool:
    """Whether the process was started by torchrun."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


class ReduceOp(enum.Enum):
    """How values of several processes are reduced; of one process, all are the value."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)

    RedOpType = property(lambda self: type(self))


reduce_op = ReduceOp


class Backend(str):
    """The name of what exchanges values: in lower case."""

    GLOO, NCCL, MPI, UCC, UNDEFINED = "gloo", "nccl", "mpi", "ucc", "undefined"

    def __new__(cls, name: str):
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, got {name!r}")
        return super().__new__(cls, name.lower())


class Work:
    """A collective that was started with `async_op=True`: it is done."""

    def __init__(self, result=()):
        self._result = list(result)

    def wait(self, timeout=None) -> bool:
        """Return True."""
        return True

    is_completed = is_success = wait

    def result(self) -> list:
        """Return the tensors that it wrote."""
        return self._result

    def get_future(self):
        """Return a Future that has the result."""
        future = Future()
        future.set_result(self._result)
        return future


class ProcessGroup:
    """A group of one process."""

    def __init__(self, backend: str = "gloo"):
        self._backend = backend
        self.group_name, self.group_desc = "0", "default_pg"

    def rank(self) -> int:
        """Return the number of this process in the group: 0."""
        return 0

    def size(self) -> int:
        """Return the number of processes: 1."""
        return 1

    def name(self) -> str:
        """Return the name of the backend."""
        return self._backend


class _Groups(type):
    _world: ProcessGroup | None = None

    @property
    def WORLD(cls):
        """The group of all processes, None before `init_process_group`."""
        return _Groups._world


class group(metaclass=_Groups):
    """Holds the group of all processes, `WORLD`."""


class GroupMember(group):
    """Holds `WORLD`, and what a process has for a group that it is not in."""

    NON_GROUP_MEMBER = -100


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return _Groups._world is not None


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None,
                       group_name="", pg_options=None, device_id=None) -> None:  # fmt: skip
    """Make the group of this process.

    Args:
        backend: "gloo", or another name of PyTorch's: nothing is exchanged.
        init_method: "env://", where RANK and WORLD_SIZE say what is not given, or the address of a rendezvous, at which
            one process need not wait.
        timeout, store, group_name, pg_options, device_id: have no effect with one process.
        world_size: number of processes; NotImplementedError for more than 1.
        rank: number of this one: 0.

    Raises ValueError for an unknown backend, where number or rank is missing, or when there is a group already.
    """
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    names = {one.rpartition(":")[2] for one in Backend(backend or "gloo").split(",")}
    if not names <= set(_BACKENDS):
        raise ValueError(f"Invalid backend: '{backend}': write 'gloo'")
    given = {key: values[-1] for key, values in parse_qs(urlsplit(init_method or "").query).items()}
    world_size, rank = [
        int(value if value != -1 else given.get(name, os.environ.get(name.upper(), -1)))
        for name, value in (("world_size", world_size), ("rank", rank))
    ]
    if world_size == -1 or rank == -1:
        missing = "RANK" if rank == -1 else "WORLD_SIZE"
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable {missing} expected, "
            "but not set: write init_process_group('gloo', rank=0, world_size=1)"
        )
    if world_size != 1:
        raise NotImplementedError(
            f"plugrad has process groups of one process, not of {world_size}: there is no transport that would "
            "exchange gradients between them. Start one process (world_size=1, rank=0)"
        )
    if rank != 0:
        raise ValueError(f"a group of one process has rank 0, not {rank}")
    _Groups._world = ProcessGroup(next(iter(sorted(names))))


def destroy_process_group(group=None) -> None:
    """End the group; ValueError if there is none."""
    _member(group)
    if group is None or group is _Groups._world:
        _Groups._world = None


def _member(group) -> ProcessGroup:
    if _Groups._world is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return _Groups._world if group is None else group


def new_group(ranks=None, timeout=None, backend=None, pg_options=None, use_local_synchronization=False,
              group_desc=None, device_id=None) -> ProcessGroup:  # fmt: skip
    """Return a group of some of the processes: of this one."""
    world = _member(None)
    if ranks is not None and list(ranks) != [0]:
        raise ValueError(f"the new group's ranks {list(ranks)} must be of the 1 process that there is: [0]")
    return ProcessGroup(Backend(backend) if backend else world.name())


def get_rank(group=None) -> int:
    """Return the number of this process in a group."""
    return _member(group).rank()


def get_world_size(group=None) -> int:
    """Return the number of processes in a group."""
    return _member(group).size()


def get_backend(group=None) -> Backend:
    """Return the name of a group's backend."""
    return Backend(_member(group).name())


def get_process_group_ranks(group=None) -> list[int]:
    """Return the numbers of a group's processes."""
    return [*range(_member(group).size())]


def get_global_rank(group, group_rank: int) -> int:
    """Return the number among all processes of one of a group."""
    return _root(group_rank, group)


def get_group_rank(group, global_rank: int) -> int:
    """Return the number in a group of one of all processes."""
    return _root(global_rank, group)


def get_node_local_rank(fallback_rank=None) -> int:
    """Return the number of this process on its machine, as LOCAL_RANK says."""
    value = os.environ.get("LOCAL_RANK", fallback_rank)
    if value is None:
        raise RuntimeError("LOCAL_RANK is not in the environment: give a fallback_rank")
    return int(value)


# ---------------------------------------------------------------------------------------------------- collectives


def _root(rank, group, name="the collective") -> int:
    _member(group)
    if rank not in (0, None):
        raise RuntimeError(f"{name}: invalid root rank: {rank}; a group of one process has rank 0 only")
    return 0


def _tensors(name, *values) -> None:
    for value in values:
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}(): a tensor is expected, got {type(value).__name__}")


def _done(async_op, *results):
    return Work(results) if async_op else None


def _only(name, values):
    """Return the one element of a list that has one for each process."""
    if not isinstance(values, (list, tuple)) or len(values) != 1:
        count = len(values) if isinstance(values, (list, tuple)) else type(values).__name__
        raise RuntimeError(f"{name}: invalid tensor list (expected length 1, one for each process, got {count})")
    return values[0]


def _copy(name, target, source, group, async_op):
    _member(group)
    _tensors(name, target, source)
    if target.numel() != source.numel() or target.dtype is not source.dtype:
        raise RuntimeError(
            f"{name}: the result has {target.numel()} elements of {target.dtype}, and {source.numel()} of "
            f"{source.dtype} come"
        )
    target.detach().copy_(source.detach().reshape(target.shape))
    return _done(async_op, target)


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduce a tensor over all processes, in place: of one, it stays as it is."""
    _member(group)
    _tensors("all_reduce", tensor)
    return _done(async_op, tensor)


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Give all processes the tensor of one."""
    _root(src if group_src is None else group_src, group, "broadcast")
    _tensors("broadcast", tensor)
    return _done(async_op, tensor)


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """Reduce a tensor over all processes, for one of them."""
    return broadcast(tensor, dst, group, async_op, group_dst)


def barrier(group=None, async_op=False, device_ids=None):
    """Wait for all processes."""
    _member(group)
    return _done(async_op)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False) -> None:
    """Wait for all processes."""
    barrier(group)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Write the tensor of each process into a list of tensors."""
    _member(group)
    return _copy("all_gather", _only("all_gather", tensor_list), tensor, group, async_op)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """Write the tensors of all processes into one."""
    return _copy("all_gather_into_tensor", output_tensor, input_tensor, group, async_op)


all_gather_single = all_gather_into_tensor


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """Write the tensor of each process into a list of one of them."""
    _root(dst if group_dst is None else group_dst, group, "gather")
    return _copy("gather", _only("gather", gather_list), tensor, group, async_op)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Write a list's element for each process into its tensor."""
    _root(src if group_src is None else group_src, group, "scatter")
    return _copy("scatter", tensor, _only("scatter", scatter_list), group, async_op)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduce a list over all processes; each gets its element."""
    _member(group)
    return _copy("reduce_scatter", output, _only("reduce_scatter", input_list), group, async_op)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduce a tensor over all processes; each gets its part."""
    return _copy("reduce_scatter_tensor", output, input, group, async_op)


reduce_scatter_single = reduce_scatter_tensor


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Give each process an element of each list."""
    source = _only("all_to_all", input_tensor_list)
    return _copy("all_to_all", _only("all_to_all", output_tensor_list), source, group, async_op)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    """Give each process a part of each tensor."""
    return _copy("all_to_all_single", output, input, group, async_op)


def all_gather_object(object_list, obj, group=None) -> None:
    """Put an object of each process, as a copy, into a list."""
    _member(group)
    _only("all_gather_object", object_list)
    object_list[0] = copy.deepcopy(obj)


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None) -> None:
    """Put an object of each process into a list of one of them."""
    _root(dst if group_dst is None else group_dst, group, "gather_object")
    all_gather_object(object_gather_list, obj, group)


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False) -> None:
    """Give all processes the objects of one."""
    _root(src if group_src is None else group_src, group, "broadcast_object_list")


def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None,
                        group_src=None) -> None:  # fmt: skip
    """Put a list's object for each process into its own list."""
    _root(src if group_src is None else group_src, group, "scatter_object_list")
    scatter_object_output_list[0] = copy.deepcopy(_only("scatter_object_list", scatter_object_input_list))


def _alone(name):
    def refuse(*args, **kwargs):
        _member(kwargs.get("group"))
        raise NotImplementedError(f"{name}: plugrad has groups of one process, so there is no other one to talk to")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "NotImplementedError: there is no other process."
    return refuse


send, recv, isend, irecv = (_alone(name) for name in ("send", "recv", "isend", "irecv"))

__all__ = [
    "Backend", "GroupMember", "ProcessGroup", "ReduceOp", "Work", "all_gather", "all_gather_into_tensor",
    "all_gather_object", "all_gather_single", "all_reduce", "all_to_all", "all_to_all_single", "barrier", "broadcast",
    "broadcast_object_list", "destroy_process_group", "gather", "gather_object", "get_backend", "get_global_rank",
    "get_group_rank", "get_node_local_rank", "get_process_group_ranks", "get_rank", "get_world_size", "group",
    "init_process_group", "irecv", "is_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "isend", "monitored_barrier", "new_group", "recv", "reduce",
    "reduce_op", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_tensor", "scatter", "scatter_object_list", "send",
]  # fmt: skip
