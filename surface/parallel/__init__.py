"""Modules on several devices: what programs wrap their model in. With one device, or the CPU, it passes through."""

from __future__ import annotations

import contextlib
import os
from itertools import chain

import plugrad
from plugrad import Tensor, absent
from plugrad.nn import Module

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter",
]  # fmt: skip

__getattr__ = absent.attributes("nn.parallel")


class DataParallel(Module):
    """A module whose batches are divided among the GPUs.

    Without any, or with one, it calls the module as it is.

    Args:
        module: the module, which is the child ``module``: the names in ``state_dict()`` begin with it.
        device_ids: the GPUs, by number or device; all of them by default.
        output_device: where the results go; the first of them by default.
        dim: the dimension that counts the batch.

    >>> import plugrad as torch
    >>> list(torch.nn.DataParallel(torch.nn.Linear(2, 1)).state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids = _device_ids(device_ids)
        if self.device_ids:
            self.output_device = self.device_ids[0] if output_device is None else _device(output_device)
            if len(self.device_ids) == 1:
                self.module.to(self.device_ids[0])

    def forward(self, *inputs, **kwargs):
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        return _call(self.module, inputs, kwargs, self.device_ids, self.output_device, self)

    def replicate(self, module, device_ids):
        """Return copies of the module on devices; a subclass may do so otherwise."""
        return replicate(module, device_ids, not plugrad.is_grad_enabled())

    def scatter(self, inputs, kwargs, device_ids):
        """Return the (args, kwargs) of each device."""
        return scatter((inputs, kwargs), device_ids, self.dim)

    def parallel_apply(self, replicas, inputs, kwargs):
        """Return what each copy gives."""
        return parallel_apply(replicas, inputs, kwargs)

    def gather(self, outputs, output_device):
        """Return the results as one."""
        return gather(outputs, output_device, self.dim)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """Call a module on a batch that is divided among GPUs; see DataParallel.

    Args:
        module: the module.
        inputs: a tensor, or a tuple of the positional arguments.
        device_ids, output_device, dim: see DataParallel.
        module_kwargs: the keyword arguments.
    """
    inputs = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    devices = _device_ids(device_ids)
    if not devices:
        return module(*inputs, **(module_kwargs or {}))
    target = devices[0] if output_device is None else output_device
    return _call(module, inputs, module_kwargs or {}, devices, target, DataParallel(module, devices, target, dim))


def _device_ids(given) -> list:
    if given is None:
        given = range(plugrad.cuda.device_count())
    elif not plugrad.cuda.is_available() and all(_device(one).type == "cuda" for one in given):
        return []
    return [_device(one) for one in given]


def _device(given):
    """Return the device that a number (of a GPU, or -1 for the CPU), a name or a device means."""
    if isinstance(given, int):
        return plugrad.device("cpu") if given == -1 else plugrad.device("cuda", given)
    return plugrad.device(given)


def _call(module, inputs, kwargs, devices, output_device, steps):
    for tensor in chain(module.parameters(), module.buffers()):
        if tensor.device != devices[0]:
            raise RuntimeError(
                f"module must have its parameters and buffers on device {devices[0]} (device_ids[0]) but found one of "
                f"them on device: {tensor.device}; write module.to({str(devices[0])!r})"
            )
    parts = steps.scatter(inputs, kwargs, devices) if inputs or kwargs else [((), {})]
    args, options = zip(*parts)
    if len(devices) == 1:
        return module(*args[0], **options[0])
    devices = devices[: len(parts)]
    return steps.gather(steps.parallel_apply(steps.replicate(module, devices), args, options), output_device)


class DistributedDataParallel(Module):
    """A module that is trained by several processes together.

    Here there is one process, so it calls the module as it is.

    Args:
        module: the module, which is the child ``module``: the names in ``state_dict()`` begin with it.
        device_ids, output_device, dim: as in DataParallel, for one device at most.
        options: those of PyTorch that concern how processes exchange gradients have no effect with one.

    Raises NotImplementedError when there are more processes, by the variable WORLD_SIZE.

    >>> import plugrad as torch
    >>> list(torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1)).state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0, *, process_group=None, **options):
        super().__init__()
        unknown = options.keys() - _OPTIONS
        if unknown:
            raise TypeError(f"DistributedDataParallel() got an unexpected keyword argument {min(unknown)!r}")
        world = os.environ.get("WORLD_SIZE", "1")
        alone = process_group is None or getattr(process_group, "size", int)() == 1
        if not alone or world != "1":
            raise NotImplementedError(
                "DistributedDataParallel can't exchange gradients between processes: groups have one process here "
                f"(WORLD_SIZE is {world}). Start one process, or average the gradients yourself after backward()"
            )
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient."
            )
        self.module, self.dim = module, dim
        self.device_ids, self.output_device = device_ids, output_device

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)

    def no_sync(self):
        """Return a context in which no gradients are exchanged.

        With one process that is always so.
        """
        return contextlib.nullcontext()


_OPTIONS = set(
    "broadcast_buffers init_sync bucket_cap_mb find_unused_parameters check_reduction gradient_as_bucket_view "
    "static_graph delay_all_reduce_named_params param_to_hook_all_reduce mixed_precision device_mesh "
    "skip_all_reduce_unused_params".split()
)


# ---------------------------------------------------------------------------------------------------- the steps


def scatter(inputs, target_gpus, dim=0):
    """Return what each device gets of arguments.

    Tensors, in nests too, are divided along ``dim`` and moved; all else is handed to each device.

    >>> import plugrad as torch
    >>> torch.nn.parallel.scatter((torch.arange(3), "a"), ["cpu", "cpu"])
    [(tensor([0, 1]), 'a'), (tensor([2]), 'a')]
    """
    if isinstance(inputs, Tensor):
        chunks = inputs.chunk(len(target_gpus), dim)
        return tuple(chunk.to(_device(device)) for chunk, device in zip(chunks, target_gpus))
    if isinstance(inputs, (tuple, list)) and inputs:
        rows = zip(*(scatter(value, target_gpus, dim) for value in inputs))
        return [type(inputs)(*row) if hasattr(inputs, "_fields") else type(inputs)(row) for row in rows]
    if isinstance(inputs, dict) and inputs:
        rows = zip(*(scatter(value, target_gpus, dim) for value in inputs.values()))
        return [type(inputs)(zip(inputs, row)) for row in rows]
    return [inputs for _ in target_gpus]


def gather(outputs, target_device, dim=0):
    """Return the results of several devices as one, on one device.

    Tensors are joined along ``dim``, where those without dimensions count as having one.

    >>> import plugrad as torch
    >>> torch.nn.parallel.gather([(torch.ones(1),), (torch.zeros(2),)], "cpu")
    (tensor([1., 0., 0.]),)
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        moved = [output.to(_device(target_device)) for output in outputs]
        return plugrad.cat([one.unsqueeze(0) if one.dim() == 0 else one for one in moved], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(output) != len(first) for output in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([output[key] for output in outputs], target_device, dim)) for key in first)
    joined = [gather(values, target_device, dim) for values in zip(*outputs)]
    return type(first)(*joined) if hasattr(first, "_fields") else type(first)(joined)


def replicate(network, devices, detach=False):
    """Return copies of a module on devices.

    Their parameters are computed from its own, so that it gets the gradients, unless ``detach``.
    """
    return [_replica(network, _device(device), detach, {}) for device in devices]


def _replica(module, device, detach, copies):
    if id(module) not in copies:
        if hasattr(module, "_replicate_for_data_parallel"):
            module._replicate_for_data_parallel()  # a lazy module refuses
        copied = copies[id(module)] = type(module).__new__(type(module))
        copied.__dict__.update(module.__dict__)
        copied._is_replica = True
        copied._parameters = {}
        moved = {k: p if p is None else (p.detach() if detach else p).to(device) for k, p in module._parameters.items()}
        copied.__dict__.update(moved)
        copied._buffers = {k: b if b is None else b.to(device) for k, b in module._buffers.items()}
        children = module._modules.items()
        copied._modules = {k: c if c is None else _replica(c, device, detach, copies) for k, c in children}
    return copies[id(module)]


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """Return what each of several modules gives for its inputs.

    Args:
        modules: the modules.
        inputs: for each the positional arguments, a tuple or one value.
        kwargs_tup: for each the keyword arguments.
        devices: where they are; the work is queued on one after another.
    """
    if len(modules) != len(inputs):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}")
    options = kwargs_tup or [{}] * len(modules)
    packed = [given if isinstance(given, (tuple, list)) else (given,) for given in inputs]
    return [module(*args, **kwargs) for module, args, kwargs in zip(modules, packed, options)]
