"""`Module.hooks()`: which hooks a module has, whose they are, and the order in which they run."""

import functools
from collections import OrderedDict

import pytest

import plugrad
from plugrad import nn
from plugrad.nn.module import register_module_forward_hook


def watch(module, *values):
    pass


def listed(module):
    return [(hook.kind, hook.name, hook.order, hook.of_all_modules) for hook in module.hooks()]


def test_hooks_are_listed_in_the_order_in_which_they_run():
    module = nn.Linear(2, 2)
    assert module.hooks() == []
    seen = []

    def second(module, args, output):
        seen.append("second")

    def first(module, args, output):
        seen.append("first")

    module.register_forward_hook(second)
    module.register_forward_hook(first, prepend=True)
    module.register_forward_pre_hook(functools.partial(watch, module))
    module.register_full_backward_pre_hook(watch)
    module.register_full_backward_hook(watch)
    module.register_state_dict_pre_hook(watch)
    module.register_load_state_dict_post_hook(watch)
    with register_module_forward_hook(lambda module, args, output: seen.append("all")):
        assert [one[::2] for one in listed(module)] == [
            ("forward_pre", 0), ("forward", 0), ("forward", 1), ("forward", 2), ("backward_pre", 0),
            ("full_backward", 0), ("state_dict_pre", 0), ("load_state_dict_post", 0),
        ]  # fmt: skip
        assert [hook.of_all_modules for hook in module.hooks()].count(True) == 1
        module(plugrad.ones(1, 2))
    names = [hook.name.rpartition(".")[2] for hook in module.hooks() if hook.kind == "forward"]
    assert seen == ["all", *names] == ["all", "first", "second"]
    assert {hook.owner for hook in module.hooks()} == {__name__}


def test_a_hook_of_the_old_style_and_one_of_plugrads_say_so():
    module = nn.LazyLinear(2)
    assert {(hook.kind, hook.owner) for hook in module.hooks()} >= {("forward_pre", "plugrad")}
    module.register_backward_hook(watch)
    assert ("backward", "watch", 0, False) in listed(module)


def test_a_listed_hook_can_be_removed():
    module = nn.Linear(2, 2)
    handle = module.register_forward_hook(watch)
    (hook,) = module.hooks()
    hook.remove()
    hook.remove()
    handle.remove()
    assert module.hooks() == [] and hook.function is watch


def test_a_tensor_names_its_creator():
    x = plugrad.ones(1, requires_grad=True)
    assert x.creator is None and (x * 2).creator.name() == "MulBackward0"


def test_programs_put_other_tables_in_place_of_the_hooks_of_all_modules():
    module, calls = plugrad.nn.modules.module, []
    handle = module.register_module_forward_hook(lambda *_: calls.append("registered"))
    assert handle.hooks_dict_ref() is module._global_forward_hooks
    module._global_forward_hooks = OrderedDict({0: lambda *_: calls.append("put there")})
    plugrad.nn.Identity()(plugrad.ones(1))
    module._global_forward_hooks = OrderedDict()
    plugrad.nn.Identity()(plugrad.ones(1))
    assert calls == ["put there"]


@pytest.mark.parametrize("change, count", [(lambda grads: grads[:-1], 0), (lambda grads: grads * 2, 2)])
def test_a_hook_returns_as_many_gradients_as_it_got(change, count):
    y = plugrad.ones(2, requires_grad=True).sigmoid()
    y.grad_fn.register_hook(lambda inputs, outputs: change(inputs))
    with pytest.raises(RuntimeError, match=f"got {count}, but expected 1"):
        y.sum().backward()
