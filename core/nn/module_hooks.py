"""Hooks around a module's call: before and after forward, and around its backward."""

from __future__ import annotations

import warnings
from collections import OrderedDict

from plugrad.graph.hooks import RemovableHandle
from plugrad.nn.tables import Table

__all__ = [
    "register_module_forward_pre_hook",
    "register_module_forward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

# Hooks of all modules. They run before a module's own.
_global_forward_pre_hooks: dict = OrderedDict()
_global_forward_hooks: dict = OrderedDict()
_global_forward_hooks_with_kwargs: dict = OrderedDict()
_global_forward_hooks_always_called: dict = OrderedDict()
_global_backward_pre_hooks: dict = OrderedDict()
_global_backward_hooks: dict = OrderedDict()
_global_is_full_backward_hook: bool | None = None
_global_call_hooks = (
    _global_forward_pre_hooks,
    _global_forward_hooks,
    _global_backward_pre_hooks,
    _global_backward_hooks,
)

_global_buffer_registration_hooks: dict = OrderedDict()
_global_module_registration_hooks: dict = OrderedDict()
_global_parameter_registration_hooks: dict = OrderedDict()

_MIXED = (
    "Cannot use both regular backward hooks and full backward hooks {where}. Please use only one of them: "
    "register_full_backward_hook is the one to keep"
)


class HookedCall:
    """The part of Module that calls forward.

    ``_has_hooks`` is the one truth test a call makes. An instance sets it when it gets a hook, the class when
    there is a global one; the slow path lowers it again when the last hook is gone.
    """

    _has_hooks = False
    _compiled_call_impl = None
    _is_full_backward_hook: bool | None = None
    _forward_pre_hooks = Table(OrderedDict)
    _forward_pre_hooks_with_kwargs = Table(OrderedDict)
    _forward_hooks = Table(OrderedDict)
    _forward_hooks_with_kwargs = Table(OrderedDict)
    _forward_hooks_always_called = Table(OrderedDict)
    _backward_pre_hooks = Table(OrderedDict)
    _backward_hooks = Table(OrderedDict)

    def forward(self, *input):
        """Compute the result. Call the module and not this method, so that hooks run."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args, **kwargs):
        if self._has_hooks:
            return (self._compiled_call_impl or self._call_impl)(*args, **kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        before = self._forward_pre_hooks or _global_forward_pre_hooks
        after = self._forward_hooks or _global_forward_hooks
        backward = self._has_backward_hooks()
        if not (before or after or backward):
            self._lower_flags()
            return self.forward(*args, **kwargs)
        result, called = None, set()
        try:
            if before:
                args, kwargs = self._run_forward_pre_hooks(args, kwargs)
            if backward:
                tap = self._tap()
                args = tap.setup_input_hook(args)
            result = self.forward(*args, **kwargs)
            if after:
                for key, hook in (*_global_forward_hooks.items(), *self._forward_hooks.items()):
                    called.add(key)
                    changed = self._run_forward_hook(key, hook, args, kwargs, result)
                    if changed is not None:
                        result = changed
            return tap.setup_output_hook(result) if backward else result
        except Exception:
            self._run_always_called(called, args, kwargs, result)
            raise

    def _has_backward_hooks(self):
        return self._backward_hooks or self._backward_pre_hooks or _global_backward_hooks or _global_backward_pre_hooks

    def _lower_flags(self) -> None:
        """Give calls the fast path again after the last hook has gone."""
        # Looking once more after each change catches a hook that another thread registers meanwhile.
        if self._compiled_call_impl is None:
            self.__dict__.pop("_has_hooks", None)
            if self._forward_pre_hooks or self._forward_hooks or self._backward_hooks or self._backward_pre_hooks:
                self._has_hooks = True
        if HookedCall._has_hooks:
            HookedCall._has_hooks = False
            HookedCall._has_hooks = any(_global_call_hooks)

    def _run_forward_pre_hooks(self, args, kwargs):
        for key, hook in (*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()):
            if key in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is None:
                    continue
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                    )
                args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        return args, kwargs

    def _run_forward_hook(self, key, hook, args, kwargs, result):
        if key in self._forward_hooks_with_kwargs or key in _global_forward_hooks_with_kwargs:
            return hook(self, args, kwargs, result)
        return hook(self, args, result)

    def _run_always_called(self, called, args, kwargs, result):
        """After an error, run the hooks with ``always_call``; their errors only warn."""
        for scope, hooks, always in (
            ("global module", _global_forward_hooks, _global_forward_hooks_always_called),
            ("module", self._forward_hooks, self._forward_hooks_always_called),
        ):
            for key, hook in hooks.items():
                if key not in always or key in called:
                    continue
                try:
                    changed = self._run_forward_hook(key, hook, args, kwargs, result)
                    result = result if changed is None else changed
                except Exception as error:
                    warnings.warn(
                        f"{scope} forward hook with ``always_call=True`` raised an exception that was"
                        f" silenced as another error was raised in forward: {error}",
                        stacklevel=4,
                    )

    def _tap(self):
        """What puts the backward hooks that apply to this call into the graph."""
        from plugrad.nn.backward_hooks import BackwardHook

        hooks: dict = {True: [], False: [], None: []}
        hooks[_global_is_full_backward_hook] += _global_backward_hooks.values()
        hooks[self._is_full_backward_hook] += self._backward_hooks.values()
        pre_hooks = [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]
        return BackwardHook(self, hooks[True], pre_hooks, hooks[False])

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False) -> RemovableHandle:
        """Run ``hook(module, args)`` before every forward.

        Args:
            hook: may return new positional arguments: a tuple, or one value. With ``with_kwargs`` it is
                called as ``hook(module, args, kwargs)`` and may return ``(args, kwargs)``.
            prepend: run it before the module's other pre-hooks. Global ones always run first.
            with_kwargs: hand the keyword arguments to the hook too.

        >>> import plugrad as torch
        >>> double = torch.nn.Sequential()
        >>> handle = double.register_forward_pre_hook(lambda module, args: args[0] * 2)
        >>> double(torch.tensor([1.0]))
        tensor([2.])
        """
        handle = self._add_hook(self._forward_pre_hooks, hook, prepend, self._forward_pre_hooks_with_kwargs)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False) -> RemovableHandle:
        """Run ``hook(module, args, output)`` after every forward.

        Args:
            hook: may return another output. With ``with_kwargs`` it is called as
                ``hook(module, args, kwargs, output)``.
            prepend: run it before the module's other hooks. Global ones always run first.
            with_kwargs: hand the keyword arguments to the hook too.
            always_call: run it even if the call raises; the output is then None or what there was.

        >>> import plugrad as torch
        >>> negate = torch.nn.Sequential()
        >>> handle = negate.register_forward_hook(lambda module, args, output: -output)
        >>> negate(torch.tensor([1.0]))
        tensor([-1.])
        """
        handle = self._add_hook(
            self._forward_hooks,
            hook,
            prepend,
            [self._forward_hooks_with_kwargs, self._forward_hooks_always_called],
        )
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_pre_hook(self, hook, prepend=False) -> RemovableHandle:
        """Run ``hook(module, grad_output)`` when the outputs' gradients are known.

        Args:
            hook: may return a tuple of new gradients, used from there on. It must not change them in place.
            prepend: run it before the module's other backward pre-hooks.
        """
        return self._add_hook(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook, prepend=False) -> RemovableHandle:
        """Run ``hook(module, grad_input, grad_output)`` behind the module's backward.

        Args:
            hook: may return a tuple of new gradients in place of ``grad_input``: one entry for each
                positional argument, None for those that are no tensors. It must not change its arguments
                in place.
            prepend: run it before the module's other backward hooks.

        Raises RuntimeError on a module that has old style backward hooks.

        >>> import plugrad as torch
        >>> layer = torch.nn.Sequential()
        >>> handle = layer.register_full_backward_hook(lambda module, grad_input, _: (grad_input[0] * 10,))
        >>> x = torch.tensor([1.0], requires_grad=True)
        >>> layer(x).sum().backward()
        >>> x.grad
        tensor([10.])
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(_MIXED.format(where="on a single Module"))
        self._is_full_backward_hook = True
        return self._add_hook(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook) -> RemovableHandle:
        """Run ``hook`` on forward's last node: prefer register_full_backward_hook."""
        if self._is_full_backward_hook is True:
            raise RuntimeError(_MIXED.format(where="on a single Module"))
        self._is_full_backward_hook = False
        return self._add_hook(self._backward_hooks, hook, False)

    def _add_hook(self, hooks, hook, prepend, extra_dict=None) -> RemovableHandle:
        handle = RemovableHandle(hooks, extra_dict=extra_dict)
        hooks[handle.id] = hook
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        self._has_hooks = True
        return handle

    def compile(self, *args, **kwargs) -> None:
        """Compile this module's call in place, with the arguments of plugrad.compile."""
        from plugrad import compiler

        self._compiled_call_impl = compiler.compile(self._call_impl, *args, **kwargs)
        self._has_hooks = True


def _add_global_hook(hooks, hook, extra_dict=None) -> RemovableHandle:
    handle = RemovableHandle(hooks, extra_dict=extra_dict)
    hooks[handle.id] = hook
    HookedCall._has_hooks = True
    return handle


def _set_global_backward_style(full: bool) -> None:
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(_MIXED.format(where="as a global Module hook"))
    _global_is_full_backward_hook = full


def register_module_forward_pre_hook(hook) -> RemovableHandle:
    """Run ``hook(module, args)`` before every module's forward.

    The hook is that of Module.register_forward_pre_hook without keyword arguments.
    """
    return _add_global_hook(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False) -> RemovableHandle:
    """Run ``hook(module, args, output)`` after every module's forward.

    The arguments are those of Module.register_forward_hook.

    >>> import plugrad as torch
    >>> seen = []
    >>> with torch.nn.module.register_module_forward_hook(lambda module, args, output: seen.append(module)):
    ...     _ = torch.nn.Sequential()(torch.tensor([1.0]))
    >>> seen
    [Sequential()]
    """
    extra = [_global_forward_hooks_with_kwargs, _global_forward_hooks_always_called]
    handle = _add_global_hook(_global_forward_hooks, hook, extra)
    if with_kwargs:
        _global_forward_hooks_with_kwargs[handle.id] = True
    if always_call:
        _global_forward_hooks_always_called[handle.id] = True
    return handle


def register_module_full_backward_pre_hook(hook) -> RemovableHandle:
    """As Module.register_full_backward_pre_hook, for every module."""
    return _add_global_hook(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook) -> RemovableHandle:
    """As Module.register_full_backward_hook, for every module."""
    _set_global_backward_style(full=True)
    return _add_global_hook(_global_backward_hooks, hook)


def register_module_backward_hook(hook) -> RemovableHandle:
    """As Module.register_backward_hook, for every module."""
    _set_global_backward_style(full=False)
    return _add_global_hook(_global_backward_hooks, hook)


def register_module_buffer_registration_hook(hook) -> RemovableHandle:
    """Run ``hook(module, name, buffer)`` at every registration; it may replace it."""
    return _add_registration_hook(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook) -> RemovableHandle:
    """Run ``hook(module, name, child)`` at every registration; it may replace it."""
    return _add_registration_hook(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook) -> RemovableHandle:
    """Run ``hook(module, name, param)`` at every registration; it may replace it."""
    return _add_registration_hook(_global_parameter_registration_hooks, hook)


def _add_registration_hook(hooks, hook) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle
