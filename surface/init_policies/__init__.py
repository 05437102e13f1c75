"""Policies by which whole models are initialised: `with nn.init.policy("modern"):`, beside the layers' own defaults.

A policy is a plugin, a function ``f(module, place)`` of the kind "init_policies". It gets every module that has
parameters of its own, and a `Place` that says where in the model it stands; it fills the parameters and returns True,
or returns False where the layer's own initialisation is to stay.
"""

from __future__ import annotations

import gc
import sys
import threading
import warnings
import weakref
from itertools import compress, repeat

from plugrad import no_grad, registry
from plugrad.extend.blocks import Restoring
from plugrad.nn import Module, Sequential
from plugrad.nn.global_hooks import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from plugrad.registry.namespaces import lazy_names

__all__ = ["Place", "policy"]

__getattr__, __dir__ = lazy_names(globals(), "nn.policies")
_here = threading.local()  # the policies whose blocks this thread is in, the innermost last
_KEY = "init_policy"  # in the metadata of a state dict


def _modules():
    """Return all modules that there are, without a step of Python's for each of a million objects."""
    objects = gc.get_objects()
    return compress(objects, map(issubclass, map(type, objects), repeat(Module)))


class Place:
    """Where in a model a module stands.

    Attributes:
        name: its dotted name.
        root: the model.
        parents: the modules that hold it, the model first.
    """

    def __init__(self, root, name):
        self.root, self.name = root, name
        self.parents = [root]
        for part in name.split(".")[:-1] if name else ():
            self.parents.append(getattr(self.parents[-1], part))
        if not name:
            self.parents = []

    def following(self, passing=()):
        """Return the module that gets this one's result, None where the model ends, and False where nobody can tell.

        It can be told in Sequentials. Modules of the classes `passing`, such as normalizations, are passed over.
        """
        names = self.name.split(".") if self.name else []
        for depth in range(len(self.parents) - 1, -1, -1):
            parent = self.parents[depth]
            if not isinstance(parent, Sequential):
                return False
            children = list(parent._modules.items())
            position = [key for key, _ in children].index(names[depth])
            for _, child in children[position + 1 :]:
                child = _first(child)
                if child is not None and not isinstance(child, passing):
                    return child
        return None

    def enclosing(self, kind):
        """Return the innermost module of a class that holds this one, None if there is none."""
        return next((parent for parent in reversed(self.parents) if isinstance(parent, kind)), None)


def _first(module):
    while isinstance(module, Sequential):
        module = next(iter(module), None)
    return module


class policy(Restoring):
    """Initialise models by a policy: those made in its block, or by `apply` one.

    Args:
        name: "modern", "default" (the layers' own), or what a plugin brings.

    "modern" draws weights before rectifiers as K. He et al. do, from a truncated normal distribution, and with the gain
    of what follows elsewhere; embeddings from one with deviation 0.02, attention from one with 1 / sqrt(features); what
    ends a residual branch is divided by sqrt(2 * number of blocks); recurrent matrices are orthogonal, biases zero.
    The policy of each module is saved in the metadata of the state dict, as "init_policy".

    Modules are initialised when the block ends, since only then it is known what follows what. Lazy layers must have
    their sizes by then. An unknown name raises ValueError.

    >>> import plugrad as torch
    >>> with torch.nn.init.policy("modern"):
    ...     layers = [part for _ in range(30) for part in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    ...     model = torch.nn.Sequential(*layers)
    >>> 0.05 < model(torch.randn(32, 64)).std().item() < 20
    True
    >>> model.state_dict()._metadata["0"]["init_policy"]
    'modern'
    """

    def __init__(self, name):
        self.name = name
        self.function = None if name == "default" else _function(name)
        self._handles, self._order, self._older, self._used = [], [], weakref.WeakSet(), False

    def begin(self):
        self._used, stack = True, _stack()
        self._around = sys.exc_info()[1]
        stack.append(self)

        def note(module, name, value):
            if stack is _stack() and stack[-1] is self:
                self._order.append(weakref.ref(module))

        # Copies of modules register nothing, so what was there before is what tells which are of this block.
        self._older = weakref.WeakSet(_modules())
        self._handles.append(register_module_parameter_registration_hook(note))
        self._handles.append(register_module_module_registration_hook(note))
        return self

    def end(self):
        stack = _stack()
        stack.remove(self)
        for handle in self._handles:
            handle.remove()
        created = list({module: None for ref in self._order if (module := ref()) is not None})
        self._handles, self._order = [], []
        if sys.exc_info()[1] is self._around:  # the block has not raised
            held = {id(child) for module in created for child in module._modules.values() if child is not None}
            for module in created:
                if id(module) not in held:
                    self._initialise(module, self._older, 5)  # of the `with` block's frame
                for outer in stack[-1:]:
                    outer._older.update(module.modules())
        self._older = weakref.WeakSet()

    def apply(self, model: Module) -> Module:
        """Initialise a model's parameters anew by the policy; return it.

        >>> import plugrad as torch
        >>> model = torch.nn.init.policy("modern").apply(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
        >>> model[0].bias.tolist()
        [0.0, 0.0]
        """
        self._used = True
        if self.function is None:
            for module in model.modules():
                if hasattr(module, "reset_parameters"):
                    module.reset_parameters()
        self._initialise(model, ())
        return model

    def _initialise(self, root, left_alone, stacklevel=3):
        filled: set = set()
        for name, module in list(root.named_modules()):
            own = {id(value) for value in module._parameters.values() if value is not None}
            if module in left_alone or own <= filled:  # tied ones are what they are where they come first
                continue
            filled |= own
            if getattr(module, "has_uninitialized_params", bool)():
                warnings.warn(
                    f"nn.init.policy({self.name!r}) leaves {name or type(module).__name__} alone: it has no sizes yet. "
                    "Call the model, or nn.lazy.materialize(model, inputs), and then the policy's apply(model)",
                    stacklevel=stacklevel,
                )
                continue
            with no_grad():
                if self.function is not None and self.function(module, Place(root, name)):
                    _remember(module, self.name)
                elif self.function is None:
                    _remember(module, None)

    def __repr__(self):
        return f"nn.init.policy({self.name!r})"

    def __del__(self):
        if not getattr(self, "_used", True):
            warnings.warn(
                f"{self!r} has had no effect: write `with {self!r}:` around what makes the model, or "
                f"{self!r}.apply(model)",
                stacklevel=2,
            )


def _stack() -> list:
    if not hasattr(_here, "stack"):
        _here.stack = []
    return _here.stack


def _function(name):
    entry = registry.find(f"nn.policies.{name}") if isinstance(name, str) else None
    if entry is None:
        known = ", ".join(map(repr, ["default", *registry.names_in("nn.policies")]))
        raise ValueError(f"there is no policy of initialisation named {name!r}; known: {known}")
    return entry.value


def _remember(module, name) -> None:
    """Have a module's state dict say by which policy it was initialised."""
    known = "_init_policy" in vars(module)
    module._init_policy = name
    if not known:
        module._register_state_dict_hook(_into_metadata)


def _into_metadata(module, destination, prefix, local_metadata):
    if module._init_policy is not None:
        local_metadata[_KEY] = module._init_policy
