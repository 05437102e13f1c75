"""Hooks around a module's call: before and after forward, and around its backward."""

from __future__ import annotations

from collections import OrderedDict

from plugrad.graph.hooks import RemovableHandle, add_hook
from plugrad.nn.tables import Table, room

_MIXED = (
    "Cannot use both regular backward hooks and full backward hooks {where}. Please use only one of them: "
    "register_full_backward_hook is the one to keep"
)


class HookedCall:
    """The part of Module that calls forward, with the module's own hooks and those of all modules, which run first.

    ``_has_hooks`` is the one truth test a call makes. An instance sets it when it gets a hook, the class when
    there is one of all modules; the slow path lowers it again when the last hook is gone.
    """

    _has_hooks = False
    _compiled_call_impl = None
    _is_full_backward_hook: bool | None = None
    _forward_pre_hooks = Table()
    _forward_pre_hooks_with_kwargs = Table()
    _forward_hooks = Table()
    _forward_hooks_with_kwargs = Table()
    _forward_hooks_always_called = Table()
    _backward_pre_hooks = Table()
    _backward_hooks = Table()
    _hooked_as = ("module", "on a single Module")  # in messages
    _all_modules: HookedCall  # holds the hooks of all modules

    def forward(self, *input):
        """Compute the result. Call the module and not this method, so that hooks run."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args, **kwargs):
        if self._has_hooks:
            return (self._compiled_call_impl or self._call_impl)(*args, **kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        before = self._forward_pre_hooks or self._all_modules._forward_pre_hooks
        after = self._forward_hooks or self._all_modules._forward_hooks
        backward = self._has_backward_hooks() or self._all_modules._has_backward_hooks()
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
                for owner, key, hook in self._all_forward_hooks():
                    called.add(key)
                    changed = owner._run_forward_hook(key, hook, self, args, kwargs, result)
                    if changed is not None:
                        result = changed
            return tap.setup_output_hook(result) if backward else result
        except Exception:
            room("nn.hooks").run_always_called(self, called, args, kwargs, result)
            raise

    def _has_backward_hooks(self):
        return self._backward_hooks or self._backward_pre_hooks

    def _has_any_hooks(self) -> bool:
        return bool(self._forward_pre_hooks or self._forward_hooks or self._has_backward_hooks())

    def _lower_flags(self) -> None:
        """Give calls the fast path again after the last hook has gone."""
        # Checking again after each change catches a hook that another thread registers meanwhile.
        if self._compiled_call_impl is None:
            self.__dict__.pop("_has_hooks", None)
            if self._has_any_hooks():
                self._has_hooks = True
        if HookedCall._has_hooks:
            HookedCall._has_hooks = False
            HookedCall._has_hooks = self._all_modules._has_any_hooks()

    def _run_forward_pre_hooks(self, args, kwargs):
        with_kwargs = {**self._all_modules._forward_pre_hooks_with_kwargs, **self._forward_pre_hooks_with_kwargs}
        for key, hook in (*self._all_modules._forward_pre_hooks.items(), *self._forward_pre_hooks.items()):
            if key in with_kwargs:
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

    def _all_forward_hooks(self) -> list:
        owners = (self._all_modules, self)
        return [(owner, key, hook) for owner in owners for key, hook in owner._forward_hooks.items()]

    def _run_forward_hook(self, key, hook, module, args, kwargs, result):
        if key in self._forward_hooks_with_kwargs:
            return hook(module, args, kwargs, result)
        return hook(module, args, result)

    def hooks(self) -> list:
        """Return the hooks of this module and those of all modules, in the order in which they run.

        Each has ``kind``, ``name``, ``owner`` (the distribution or module it is from), ``order`` and ``remove()``.
        """
        return room("nn.hooks").hooks_of(self)

    def _tap(self):
        """What puts the backward hooks that apply to this call into the graph."""
        hooks: dict = {True: [], False: [], None: []}
        for owner in (self._all_modules, self):
            hooks[owner._is_full_backward_hook] += owner._backward_hooks.values()
        pre_hooks = [*self._all_modules._backward_pre_hooks.values(), *self._backward_pre_hooks.values()]
        return room("nn.backward_hooks").BackwardHook(self, hooks[True], pre_hooks, hooks[False])

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
        marks = [self._forward_pre_hooks_with_kwargs] * bool(with_kwargs)
        return self._add_hook(self._forward_pre_hooks, hook, prepend, marks)

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
        marks = [self._forward_hooks_with_kwargs] * bool(with_kwargs)
        marks += [self._forward_hooks_always_called] * bool(always_call)
        return self._add_hook(self._forward_hooks, hook, prepend, marks)

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
                positional argument, None for those that are not tensors. It must not change its arguments
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
        self._set_backward_style(full=True)
        return self._add_hook(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook) -> RemovableHandle:
        """Run ``hook`` on forward's last node: prefer register_full_backward_hook."""
        self._set_backward_style(full=False)
        return self._add_hook(self._backward_hooks, hook, False)

    def _set_backward_style(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(_MIXED.format(where=self._hooked_as[1]))
        self._is_full_backward_hook = full

    def _add_hook(self, hooks, hook, prepend, marks=()) -> RemovableHandle:
        handle = add_hook(hooks, hook, marks, prepend)
        self._has_hooks = True
        return handle

    def compile(self, *args, **kwargs) -> None:
        """Compile this module's call in place, with the arguments of plugrad.compile."""
        self._compiled_call_impl = room("compiler").compile(self._call_impl, *args, **kwargs)
        self._has_hooks = True


class _AllModules(HookedCall):
    """Holds the hooks of all modules, which `plugrad.nn.global_hooks` registers."""

    _hooked_as = ("global module", "as a global Module hook")

    def __init__(self):
        self._registration_hooks = {kind: OrderedDict() for kind in ("parameter", "buffer", "module")}

    def _add_hook(self, hooks, hook, prepend=False, marks=()) -> RemovableHandle:
        handle = add_hook(hooks, hook, marks, prepend)
        HookedCall._has_hooks = True
        return handle

    def register_registration_hook(self, kind, hook) -> RemovableHandle:
        """Run ``hook(module, name, value)`` when a "parameter", "buffer" or "module" is registered."""
        return add_hook(self._registration_hooks[kind], hook)


HookedCall._all_modules = _AllModules()
