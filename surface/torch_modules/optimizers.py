"""`torch.optim.adam.adam` and its like: a step of an optimizer as a function of lists of tensors.

Each runs the optimizer of its name on the tensors that it is given, which change in place.
"""

from __future__ import annotations

import functools

from plugrad import optim

__all__ = [
    "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "nadam", "radam", "rmsprop", "rprop", "sgd",
]  # fmt: skip

_STEPS = "state_steps:step"
_MOMENTS = "exp_avgs:exp_avg exp_avg_sqs:exp_avg_sq"
_BETAS = "beta1 beta2 lr weight_decay eps"
_FUSED = "fused grad_scale found_inf"
# Of each function: the class; its lists, each with the name of the state in it; what else may be given; what must be.
_FORMS = {
    "adadelta": ("Adadelta", f"square_avgs:square_avg acc_deltas:acc_delta {_STEPS}", "capturable foreach "
                 "differentiable has_complex", "lr rho eps weight_decay maximize"),
    "adagrad": ("Adagrad", f"state_sums:sum {_STEPS}", f"{_FUSED} has_sparse_grad foreach differentiable has_complex",
                "lr weight_decay lr_decay eps maximize"),
    "adam": ("Adam", f"{_MOMENTS} max_exp_avg_sqs:max_exp_avg_sq {_STEPS}", "foreach capturable differentiable "
             f"{_FUSED} has_complex decoupled_weight_decay", f"amsgrad {_BETAS} maximize"),
    "adamax": ("Adamax", f"exp_avgs:exp_avg exp_infs:exp_inf {_STEPS}", "foreach maximize differentiable capturable "
               "has_complex", _BETAS),
    "adamw": ("AdamW", f"{_MOMENTS} max_exp_avg_sqs:max_exp_avg_sq {_STEPS}", "foreach capturable differentiable "
              f"{_FUSED} has_complex", f"amsgrad {_BETAS} maximize"),
    "asgd": ("ASGD", f"axs:ax mus:mu etas:eta {_STEPS}", "foreach maximize differentiable capturable has_complex",
             "lambd lr t0 alpha weight_decay"),
    "nadam": ("NAdam", f"{_MOMENTS} mu_products:mu_product {_STEPS}", "decoupled_weight_decay foreach capturable "
              "differentiable has_complex maximize", f"{_BETAS} momentum_decay"),
    "radam": ("RAdam", f"{_MOMENTS} {_STEPS}", "decoupled_weight_decay foreach differentiable capturable has_complex "
              "maximize", _BETAS),
    "rmsprop": ("RMSprop", f"square_avgs:square_avg grad_avgs:grad_avg momentum_buffer_list:momentum_buffer {_STEPS}",
                "foreach maximize differentiable capturable has_complex",
                "lr alpha eps weight_decay momentum centered"),
    "rprop": ("Rprop", f"prevs:prev step_sizes:step_size {_STEPS}", "foreach capturable maximize differentiable "
              "has_complex", "step_size_min step_size_max etaminus etaplus"),
    "sgd": ("SGD", "momentum_buffer_list:momentum_buffer", f"has_sparse_grad foreach {_FUSED}",
            "weight_decay momentum lr dampening nesterov maximize"),
}  # fmt: skip
_PAIRS = {
    "betas": ("beta1", "beta2"), "etas": ("etaminus", "etaplus"), "step_sizes": ("step_size_min", "step_size_max"),
}  # fmt: skip


def _function(name):
    cls_name, listed, optional, required = _FORMS[name]
    slots = dict(pair.split(":") for pair in listed.split())
    grads_name = "d_p_list" if name == "sgd" else "grads"
    positional = ["params", grads_name, *slots, *optional.split()]

    def function(*args, **kwargs):
        if len(args) > len(positional):
            raise TypeError(f"{name}() takes {len(positional)} positional arguments but {len(args)} were given")
        given = {**dict(zip(positional, args)), **kwargs}
        missing = [one for one in ("params", grads_name, *slots, *required.split()) if one not in given]
        unknown = [one for one in kwargs if one not in (*positional, *required.split())]
        if missing or unknown:
            what = f"is missing the argument {missing[0]!r}" if missing else f"has no argument {unknown[0]!r}"
            raise TypeError(f"{name}() {what}")
        for one in ("grad_scale", "found_inf"):
            if given.pop(one, None) is not None:
                raise AssertionError(f"{one} belongs to fused steps; scaler.step(optimizer) unscales gradients")
        params, grads, lists = given.pop("params"), given.pop(grads_name), {slots[one]: given.pop(one) for one in slots}
        _take(getattr(optim, cls_name), params, grads, lists, _options(given))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Take a step of {cls_name} on lists of tensors, in place.\n\n"
        f"Args:\n    params, {grads_name}: tensors, and their gradients.\n    {', '.join(slots)}: their state; lists "
        f"of what the options leave out may be empty.\n    {', '.join(required.split())}: options, by keyword.\n"
        f"    {', '.join(optional.split())}: further options; those that choose kernels have no effect."
    )
    return function


def _options(given) -> dict:
    """Return what a constructor takes of a function's options."""
    options = {one: value for one, value in given.items() if one not in ("has_complex", "has_sparse_grad", "foreach")}
    options.pop("fused", None)
    for pair, names in _PAIRS.items():
        if names[0] in options:
            options[pair] = tuple(options.pop(one) for one in names)
    return options


def _take(cls, params, grads, lists, options) -> None:
    """Take a step with each parameter, alone: what lists hold is the caller's, and is not laid side by side."""
    for k, (p, grad) in enumerate(zip(params, grads, strict=True)):
        one = p if options.get("differentiable") else p.detach()
        optimizer, before = cls([one], **options), one.grad
        state = optimizer.state[one]
        state.update({name: values[k] for name, values in lists.items() if len(values) and values[k] is not None})
        one.grad = grad
        try:
            optimizer.step()
        finally:
            one.grad = before
        for name, values in lists.items():
            if name in state and len(values) and values[k] is not state[name]:
                if values[k] is None:
                    values[k] = state[name]
                else:
                    values[k].copy_(state[name])


@functools.cache
def named(name: str):
    """Return the function of an optimizer's module, None if there is none of that name."""
    return _function(name) if name in _FORMS else None


def __getattr__(name):
    function = named(name)
    if function is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return function
