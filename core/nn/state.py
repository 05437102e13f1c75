"""The part of Module that saves its state to a dictionary and loads it again."""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Mapping

from plugrad.graph.hooks import RemovableHandle, add_hook
from plugrad.graph.modes import no_grad
from plugrad.interrupts import held_back
from plugrad.nn.conversion import ways
from plugrad.nn.parameter import Parameter
from plugrad.nn.tables import Table, room
from plugrad.tensor.tensor import Tensor

__all__ = ["StateDict"]

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ("missing_keys", "unexpected_keys"))):
    """The keys that load_state_dict missed, and those it had no place for."""

    __slots__ = ()

    def __repr__(self):
        return super().__repr__() if any(self) else "<All keys matched successfully>"


class StateDict:
    """Saving and loading of parameters, persistent buffers and extra state."""

    _version = 1  # goes into the state's _metadata, so that a later class can tell which layout it loads
    state_version: int | None = None  # in its place, of a class with migrations
    migrations: dict = {}  # {version: f(own state by local name) -> that of the next version}
    _state_dict_hooks = Table()
    _state_dict_pre_hooks = Table()
    _load_state_dict_pre_hooks = Table()
    _load_state_dict_pre_hooks_with_module = Table()
    _load_state_dict_post_hooks = Table()

    def get_extra_state(self):
        """Return what to save besides tensors; goes together with set_extra_state."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: define get_extra_state() to give it some")

    def set_extra_state(self, state) -> None:
        """Take back what get_extra_state returned."""
        raise RuntimeError(f"{type(self).__name__} takes no extra state: define set_extra_state() to load it")

    def _defines(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(StateDict, method)

    # Saving

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """Return all parameters and persistent buffers by dotted name.

        Args:
            destination: a dictionary to fill and return; a new ``OrderedDict`` by default.
            prefix: put before every name.
            keep_vars: give the tensors themselves. By default they are detached, but share their data.

        The versions of the modules' layouts go into the attribute ``_metadata`` of the dictionary.

        >>> import plugrad as torch
        >>> list(torch.nn.ParameterList([torch.zeros(2), torch.zeros(3)]).state_dict(prefix="net."))
        ['net.0', 'net.1']
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use the keywords destination=, prefix= and keep_vars=",
                FutureWarning,
                stacklevel=2,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version if self.state_version is None else self.state_version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self.__dict__.get("_state_dict_pre_hooks", {}).values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self.__dict__.get("_state_dict_hooks", {}).values():
            replaced = hook(self, destination, prefix, local_metadata)
            if replaced is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None: change the dictionary in place")
            destination = replaced
        return destination

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """Put this module's own state, without its children's, into ``destination``."""
        for name, value in self._own_state():
            destination[prefix + name] = value if keep_vars else value.detach()
        if self._defines("get_extra_state"):
            room("serialization.extra").save(self, destination, prefix + _EXTRA_STATE_KEY_SUFFIX)

    def _own_state(self) -> list:
        hidden = self._non_persistent_buffers_set
        state = [*self._parameters.items(), *(item for item in self._buffers.items() if item[0] not in hidden)]
        return [(name, value) for name, value in state if value is not None]

    # Loading

    def load_state_dict(self, state_dict, strict=True, assign=False, *, plan=False):
        """Load parameters and buffers: all of them or, on any error, none.

        Args:
            state_dict: values by dotted name, as state_dict() gives them.
            strict: demand exactly the names that this module has.
            assign: make the given tensors the module's own instead of copying their values into its tensors.
            plan: change nothing; return what would be loaded, what misses and what does not fit.

        Returns the named tuple ``(missing_keys, unexpected_keys)``. A state of an older ``state_version`` of a module's
        class is first brought to its layout by the class's ``migrations``.

        Raises TypeError if ``state_dict`` is not a mapping, and one RuntimeError that lists all that does not
        fit. After an error every parameter and buffer is what it was; for that, unless ``assign`` is set, a
        copy of them is kept while loading.

        >>> import plugrad as torch
        >>> net = torch.nn.ParameterDict({"weight": torch.zeros(2)})
        >>> net.load_state_dict({"weight": torch.ones(2)})
        <All keys matched successfully>
        >>> net["weight"]
        Parameter containing:
        tensor([1., 1.], requires_grad=True)
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(room("nn.mistakes.keys").no_mapping(state_dict))
        if plan:
            return room("nn.migrations").plan(self, state_dict, assign)
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata
        missing, unexpected, errors = [], [], []
        before = room("nn.mistakes.snapshot").Snapshot(self, copy=not assign)
        with held_back():
            try:
                _load(self, state_dict, "", metadata or {}, assign, (missing, unexpected, errors))
                if strict and (missing or unexpected):
                    errors = room("nn.mistakes.keys").described(missing, unexpected, errors, state_dict)
                if errors:
                    raise RuntimeError(
                        "Error(s) in loading state_dict for {}:\n\t{}".format(type(self).__name__, "\n\t".join(errors))
                    )
            except BaseException:
                before.restore()
                raise
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        """Load this module's own state, without its children's.

        A subclass may extend it, for example to read older layouts.

        Args:
            state_dict: the values under this module's names, in a dictionary of its own that may be changed.
            prefix: what this module's names start with.
            local_metadata: what was saved about this module, such as its "version".
            strict: whether to report names to ``missing_keys`` and ``unexpected_keys``.
            error_msgs: takes every other complaint.
        """
        for key, hook in self.__dict__.get("_load_state_dict_pre_hooks", {}).items():
            owner = (self,) if key in self._load_state_dict_pre_hooks_with_module else ()
            hook(*owner, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = dict(self._own_state())
        for name, value in own.items():
            key = prefix + name
            if key in state_dict:
                problem = self._load_one(name, value, key, state_dict[key], assign)
                if problem:
                    error_msgs.append(problem)
            elif strict:
                missing_keys.append(key)
        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        takes_extra = self._defines("set_extra_state")
        if takes_extra and extra in state_dict:
            self.set_extra_state(state_dict[extra])
        elif strict and takes_extra:
            missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    head, dot, _ = key[len(prefix) :].partition(".")
                    if head not in (self._modules if dot else own):
                        unexpected_keys.append(key)

    def _load_one(self, name, current, key, value, assign) -> str | None:
        """Load one tensor; return what is wrong if it does not fit."""
        if not isinstance(value, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from'
                f" checkpoint but received {type(value)}"
            )
        if current.dim() == 0 and tuple(value.shape) == (1,):
            value = value[0]  # scalars were saved with one dimension before PyTorch 0.4
        if value.shape != current.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the"
                f" shape in current model is {current.shape}."
            )
        if current._type.symbolic and not value._type.symbolic and not assign:
            warnings.warn(
                f"for {key}: the model has a meta tensor, without memory to load values into: nothing is copied. Did"
                " you mean to pass `assign=True`, or to call to_empty(device=...) first?", stacklevel=2,
            )  # fmt: skip
        try:
            with no_grad():
                if "swap" in ways:
                    room("torch_modules.future").load(current, value, assign)
                elif not assign:
                    current.copy_(value)
                elif isinstance(current, Parameter) and not isinstance(value, Parameter):
                    setattr(self, name, Parameter(value, requires_grad=current.requires_grad))
                else:
                    if isinstance(current, Parameter):
                        value.requires_grad_(current.requires_grad)
                    setattr(self, name, value)
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are'
                f" {current.size()} and whose dimensions in the checkpoint are {value.size()}, an exception"
                f" occurred : {error.args}."
            )
        return None

    # Hooks

    def register_state_dict_pre_hook(self, hook) -> RemovableHandle:
        """Run ``hook(module, prefix, keep_vars)`` before the module's state is saved."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook) -> RemovableHandle:
        """Run ``hook(module, state_dict, prefix, local_metadata)`` after saving.

        It may change the dictionary in place.
        """
        hook._from_public_api = True
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously"
                " registered via register_state_dict_post_hook"
            )
        return add_hook(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook) -> RemovableHandle:
        """Run ``hook`` before the module's state is loaded: it may rename keys.

        Args:
            hook: called with ``(module, state_dict, prefix, local_metadata, strict, missing_keys,
                unexpected_keys, error_msgs)``; all but the first may be changed in place.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False) -> RemovableHandle:
        marks = (self._load_state_dict_pre_hooks_with_module,) if with_module else ()
        return add_hook(self._load_state_dict_pre_hooks, hook, marks)

    def register_load_state_dict_post_hook(self, hook) -> RemovableHandle:
        """Run ``hook(module, incompatible_keys)`` after loading.

        It may change the two lists in place, for example to forgive a missing key.
        """
        return add_hook(self._load_state_dict_post_hooks, hook)


def _load(module, state_dict, prefix, metadata, assign, report) -> None:
    """Load ``module`` and its children; ``report`` holds lists of missing keys, unexpected keys and errors."""
    local_metadata = dict(metadata.get(prefix[:-1], {}))
    if assign:
        local_metadata["assign_to_params_buffers"] = True
    if module.state_version is not None:
        version = local_metadata.get("version")
        state_dict = room("nn.migrations").migrated(module, state_dict, prefix, version, report[2])
    module._load_from_state_dict(state_dict, prefix, local_metadata, True, *report)
    for name, child in module._modules.items():
        if child is not None:
            child_prefix = f"{prefix}{name}."
            child_state = {key: value for key, value in state_dict.items() if key.startswith(child_prefix)}
            _load(child, child_state, child_prefix, metadata, assign, report)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, _IncompatibleKeys(*report[:2])) is not None:
            raise AssertionError(
                "a hook given to register_load_state_dict_post_hook must return None: change the lists"
                " incompatible_keys.missing_keys and .unexpected_keys in place"
            )
