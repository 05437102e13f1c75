"""Hooks around a module's call: before and after forward, and around its backward."""

from __future__ import annotations

from collections import OrderedDict
from types import ModuleType

from plugrad.graph.hooks import RemovableHandle, add_hook
from plugrad.nn.tables import Table, room
from plugrad.registry.namespaces import lazy_methods


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

    def _tap(self):
        """What puts the backward hooks that apply to this call into the graph."""
        hooks: dict = {True: [], False: [], None: []}
        for owner in (self._all_modules, self):
            hooks[owner._is_full_backward_hook] += owner._backward_hooks.values()
        pre_hooks = [*self._all_modules._backward_pre_hooks.values(), *self._backward_pre_hooks.values()]
        return room("nn.backward_hooks").BackwardHook(self, hooks[True], pre_hooks, hooks[False])

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


class WithTables(ModuleType):
    """The module in which programs find the tables of hooks of all modules, and put others in their place."""


def _table(name):
    def assign(_, table):
        setattr(HookedCall._all_modules, name, table)
        HookedCall._has_hooks = HookedCall._all_modules._has_any_hooks()

    return property(lambda _: getattr(HookedCall._all_modules, name), assign)


for _name in (
    "backward_hooks", "backward_pre_hooks", "forward_hooks", "forward_hooks_always_called", "forward_hooks_with_kwargs",
    "forward_pre_hooks", "is_full_backward_hook",
):  # fmt: skip
    setattr(WithTables, f"_global_{_name}", _table(f"_{_name}"))
lazy_methods(HookedCall, {
    "nn.hooks": "hooks register_backward_hook register_forward_hook register_forward_pre_hook "
    "register_full_backward_hook register_full_backward_pre_hook",
})  # fmt: skip
