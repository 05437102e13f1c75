"""The base of layers that learn sizes from their first input."""

from __future__ import annotations

from itertools import chain

from plugrad import no_grad
from plugrad.extend import held_back
from plugrad.nn.lazy import dry_run
from plugrad.nn.lazy.uninitialized import is_lazy


class LazyModuleMixin:
    """What makes a layer lazy: written before the layer's own class.

    Such a class registers ``UninitializedParameter`` and ``UninitializedBuffer`` in its constructor, and has
    ``initialize_parameters(*args)``, which gets the arguments of the first call and gives them their shapes and values.
    Then the module becomes one of ``cls_to_become``, where that is set.

    Before the first call of a model the shapes of all of its lazy layers are inferred together, on tensors without
    data: that touches neither the running statistics nor the state of random generators nor hooks. The layers are then
    initialised in the order in which they were made, so a lazy model has the values that the same model with sizes
    written out has for the same seed. Where a model can't run without data (its forward reads values, say), or
    hooks are in the way, each layer is initialised when the call reaches it.

    >>> import plugrad as torch
    >>> class Scale(torch.nn.Module):
    ...     def forward(self, input):
    ...         return input * self.factor
    >>> class LazyScale(torch.nn.modules.lazy.LazyModuleMixin, Scale):
    ...     cls_to_become = Scale
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = torch.nn.UninitializedParameter()
    ...     def initialize_parameters(self, input):
    ...         self.factor.materialize((input.shape[-1],))
    ...         torch.nn.init.ones_(self.factor)
    >>> scale = LazyScale()
    >>> scale(torch.ones(2, 3)).shape, scale
    (torch.Size([2, 3]), Scale())
    """

    cls_to_become: type | None = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        # Functions and not bound methods, which would keep the module alive until garbage is looked for.
        self._load_hook = self._register_load_state_dict_pre_hook(_before_loading, with_module=True)
        self._initialize_hook = self.register_forward_pre_hook(_before_first_call, with_kwargs=True)
        dry_run.expect(self)

    def __setstate__(self, state):
        super().__setstate__(state)
        if hasattr(self, "_initialize_hook"):
            dry_run.expect(self)

    def initialize_parameters(self, *args, **kwargs):
        """Give all that is uninitialised its shape and values.

        Called with the arguments of the first call.
        """
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}: define it, to materialize its "
            "parameters for an input"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this module has no shape yet."""
        return any(is_lazy(value) for value in chain(self._parameters.values(), self._buffers.values()))

    def _infer_parameters(self, module, args, kwargs=None):
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(
                f"module {module._get_name()} has not been fully initialized: its initialize_parameters must call "
                "materialize(shape) on every uninitialized parameter and buffer"
            )
        with held_back():
            for name in ("_initialize_hook", "_load_hook"):
                getattr(module, name).remove()
                delattr(module, name)
            dry_run.forget(module)
            if module.cls_to_become is not None:
                module.__class__ = module.cls_to_become

    # Saving and loading

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, value in self._own_state():
            if is_lazy(value):
                destination[prefix + name] = value

    def _lazy_load_hook(self, state_dict, prefix, *report):
        for name, value in chain(self._parameters.items(), self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(value) and given is not None and not is_lazy(given):
                with no_grad():
                    value.materialize(given.shape)

    def _load_one(self, name, current, key, value, assign):
        if is_lazy(current) and is_lazy(value):
            return None
        return super()._load_one(name, current, key, value, assign)

    def _replicate_for_data_parallel(self):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`: call the model once before, so "
            "that they have their values"
        )


def _before_first_call(module, args, kwargs):
    module._infer_parameters(module, args, kwargs)


def _before_loading(module, *arguments):
    module._lazy_load_hook(*arguments)
