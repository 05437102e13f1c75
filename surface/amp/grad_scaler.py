"""Scaling of losses, so that gradients in float16 do not vanish, and of gradients back before a step."""

from __future__ import annotations

import enum
import inspect
import warnings
from collections import abc, defaultdict

import plugrad
from plugrad import Tensor, no_grad
from plugrad.backends.lists import many_of, touched
from plugrad.extend import held_back

__all__ = ["GradScaler", "OptState"]


class OptState(enum.Enum):
    """What was done with an optimizer's gradients since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh() -> dict:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class _Replicator:
    """A tensor of one element, and its copies on other devices."""

    def __init__(self, master):
        self.master, self._per_device_tensors = master, {}

    def get(self, device):
        if device not in self._per_device_tensors:
            self._per_device_tensors[device] = self.master.to(device, copy=True)
        return self._per_device_tensors[device]


class GradScaler:
    """Scale a loss up before backward, and the gradients down before the step.

    A step whose gradients hold an infinity or NaN is left out, and the scale falls; after many steps without one it
    grows. So it stays near the largest with which float16 does not overflow.

    Args:
        device: device type of the loss, such as "cuda" or "cpu".
        init_scale: the scale at first.
        growth_factor: by what it grows, more than 1.
        backoff_factor: by what it falls, less than 1.
        growth_interval: after how many steps in a row it grows.
        enabled: False makes `step` the optimizer's own, and all else do nothing.

    Raises AssertionError for factors on the wrong side of 1. Without CUDA, "cuda" warns and is disabled.

    >>> import plugrad as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> optimizer, scaler = torch.optim.SGD([w], lr=0.5), torch.amp.GradScaler("cpu", init_scale=8.0)
    >>> scaler.scale((w * w).sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w.grad, w.detach(), scaler.get_scale()
    (tensor([2., 2.]), tensor([0., 0.]), 8.0)
    """

    def __init__(
        self,
        device="cuda",
        init_scale=2.0**16,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
    ):
        self._device, self._enabled = device, enabled
        if enabled and device == "cuda" and not plugrad.cuda.is_available():
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._init_scale, self._scale = init_scale, None
        self._init_growth_tracker, self._growth_tracker = 0, None
        self._per_optimizer_states = defaultdict(_fresh)

    # ------------------------------------------------------------------------------------------ scaling

    def scale(self, outputs):
        """Return a tensor, or tensors in nested lists and tuples, times the scale.

        Raises ValueError for anything else.
        """
        if not self._enabled:
            return outputs
        return self._scaled(outputs, [])

    def _scaled(self, value, scales):
        if isinstance(value, Tensor):
            if not scales:
                if self._scale is None:
                    self._begin(value.device)
                scales.append(_Replicator(self._scale))
            return value * scales[0].get(value.device)
        if not isinstance(value, abc.Iterable):
            raise ValueError("outputs must be a Tensor or an iterable of Tensors")
        scaled = (self._scaled(item, scales) for item in value)
        return type(value)(scaled) if isinstance(value, (list, tuple)) else scaled

    def _begin(self, device) -> None:
        """Make the scale and its counter, as tensors on a device."""
        if self._growth_tracker is not None:
            raise AssertionError("_growth_tracker initialized before _scale")
        self._scale = plugrad.full((), self._init_scale, dtype=plugrad.float32, device=device)
        self._growth_tracker = plugrad.full((), self._init_growth_tracker, dtype=plugrad.int32, device=device)

    def _check_begun(self, what) -> None:
        if self._scale is None or self._growth_tracker is None:
            name = "_scale" if self._scale is None else "_growth_tracker"
            raise AssertionError(
                f"Attempted {what} but {name} is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )

    def unscale_(self, optimizer) -> None:
        """Divide the gradients of an optimizer by the scale, as for clipping.

        `step` does it otherwise. Raises RuntimeError the second time since the last `update`, or after `step`;
        ValueError for gradients in float16: keep parameters in float32.
        """
        if not self._enabled:
            return
        self._check_begun("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = self._scale.double().reciprocal().float()
        with held_back():
            state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, self._no_inf(), False)
            state["stage"] = OptState.UNSCALED

    def _no_inf(self):
        return plugrad.zeros((), dtype=plugrad.float32, device=self._scale.device)

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16) -> dict:
        """Multiply gradients in place; return for each device 1.0 or 0.0, whether one was infinite or NaN."""
        inverses, infinite = _Replicator(inv_scale), _Replicator(found_inf)
        params = [param for group in optimizer.param_groups for param in group["params"]]
        with no_grad():
            if self._unscaled_at_once(params, inv_scale, infinite):
                return infinite._per_device_tensors
            for param in params:
                if not isinstance(param, Tensor):
                    raise AssertionError(f"expected param to be torch.Tensor, got {type(param).__name__}")
                grad = param.grad
                if grad is None:
                    continue
                if grad.dtype is plugrad.float16 and not allow_fp16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                if grad.is_sparse:
                    if grad.dtype is plugrad.float16:  # sums of a row's gradients may overflow where none of them does
                        grad = param.grad = grad.coalesce()
                    grad = grad._values()
                if not grad.isfinite().all():
                    infinite.get(grad.device).fill_(1.0)
                infinite.get(grad.device)
                if inverses.master.item() != 1.0:
                    grad.mul_(inverses.get(grad.device))
        return infinite._per_device_tensors

    def _unscaled_at_once(self, params, inverse, infinite) -> bool:
        """Multiply gradients by one call, which waits for nothing; False where the backend has none for them."""
        grads = [param.grad for param in params if isinstance(param, Tensor) and param.grad is not None]
        if not grads or not all([isinstance(param, Tensor) for param in params]):
            return False
        many = many_of([*grads, inverse])
        flag = None if many is None else infinite.get(grads[0].device)
        if many is None or not many.unscale([grad._raw for grad in grads], inverse._raw, flag._raw):
            return False
        touched([*grads, flag])
        return True

    # ------------------------------------------------------------------------------------------ steps

    def step(self, optimizer, *args, **kwargs):
        """Unscale an optimizer's gradients, unless that was done, and step.

        It does not step where a gradient is infinite or NaN. Returns what the optimizer's `step(*args, **kwargs)`
        returns, or None. Raises RuntimeError for a closure, and for a second call since the last `update`.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_begun("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        scales = getattr(optimizer, "_step_supports_amp_scaling", False)
        if not scales and state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not scales and not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        with held_back():
            if scales:
                result = self._step_scaling(optimizer, state, args, kwargs)
            else:
                result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
            state["stage"] = OptState.STEPPED
        return result

    def _maybe_opt_step(self, optimizer, optimizer_state, *args, **kwargs):
        if any(value.item() for value in optimizer_state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def _step_scaling(self, optimizer, state, args, kwargs):
        """Step an optimizer that unscales by itself: it is handed the scale, and whether anything is infinite."""
        if "grad_scaler" in inspect.signature(optimizer.step).parameters:
            warnings.warn(
                "GradScaler is going to stop passing itself as a keyword argument to the passed optimizer; let the "
                "optimizer read its attributes `grad_scale` and `found_inf` instead.",
                FutureWarning,
                stacklevel=3,
            )
            return optimizer.step(*args, **kwargs, grad_scaler=self)
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        device = self._scale.device
        optimizer.found_inf = sum(one.to(device) for one in state["found_inf_per_device"].values())
        given = getattr(optimizer, "grad_scale", None)
        unscaled = state["stage"] is OptState.UNSCALED
        optimizer.grad_scale = given if unscaled else self._scale * (1 if given is None else given)
        result = optimizer.step(*args, **kwargs)
        del optimizer.grad_scale, optimizer.found_inf
        return result

    def _check_inf_per_device(self, optimizer) -> dict:
        """Look for infinite gradients of an optimizer, leaving them as they are."""
        self._check_begun("_check_inf_per_device")
        one = plugrad.ones((), dtype=plugrad.float32, device=self._scale.device)
        infinite = self._unscale_grads_(optimizer, one, self._no_inf(), True)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = infinite
        return infinite

    def _found_inf_per_device(self, optimizer) -> dict:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    def update(self, new_scale=None) -> None:
        """Change the scale by what became of the steps since the last time.

        Call it once at the end of an iteration. `new_scale`, a float or a tensor of one element without gradient,
        becomes the scale instead. Raises AssertionError for another, and where no gradients were looked at.
        """
        if not self._enabled:
            return
        self._check_begun("update")
        with held_back():
            self._update(new_scale)
            self._per_optimizer_states = defaultdict(_fresh)

    def _update(self, new_scale) -> None:
        if new_scale is None:
            self._follow(
                [one for state in self._per_optimizer_states.values() for one in state["found_inf_per_device"].values()]
            )
        elif isinstance(new_scale, float):
            self._scale.fill_(new_scale)
        else:
            is_scale = isinstance(new_scale, Tensor) and new_scale.numel() == 1 and not new_scale.requires_grad
            if not is_scale or new_scale.device.type != self._device:
                raise AssertionError(
                    "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
                    "requires_grad=False."
                )
            self._scale.copy_(new_scale.reshape(()))

    def _follow(self, infinite: list) -> None:
        """Let the scale fall if anything was infinite, and grow after `growth_interval` times without."""
        if not infinite:
            raise AssertionError("No inf checks were recorded prior to update.")
        if any(one.item() for one in infinite):
            self._scale.mul_(self._backoff_factor)
            self._growth_tracker.fill_(0)
        elif self._growth_tracker.item() + 1 < self._growth_interval:
            self._growth_tracker.add_(1)
        else:
            grown = self._scale * self._growth_factor
            if grown.isfinite():
                self._scale.copy_(grown)
            self._growth_tracker.fill_(0)

    # ------------------------------------------------------------------------------------------ what it is

    def _get_scale_async(self):
        return self._scale

    def get_scale(self) -> float:
        """Return the scale, 1.0 if scaling is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """Return by what the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set by what the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return by what the scale falls."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set by what the scale falls."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return after how many steps in a row the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many steps in a row the scale grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def is_enabled(self) -> bool:
        """Return whether anything is scaled."""
        return self._enabled

    # ------------------------------------------------------------------------------------------ checkpoints

    def state_dict(self) -> dict:
        """Return scale, factors and counter, to take after `update`; {} if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict) -> None:
        """Take over a state that `state_dict` made.

        Does nothing if scaling is disabled. Raises RuntimeError for the empty state of a disabled scaler.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        names = "scale", "_growth_tracker", "growth_factor", "backoff_factor", "growth_interval"
        scale, tracked, growth, backoff, interval = [state_dict[name] for name in names]
        with held_back():
            self._init_scale, self._init_growth_tracker = scale, tracked
            self._growth_factor, self._backoff_factor, self._growth_interval = growth, backoff, interval
            if self._scale is not None:
                self._scale.fill_(scale)
                self._growth_tracker.fill_(tracked)

    def __getstate__(self) -> dict:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                    "scaler.update()."
                )
            state |= {"_init_scale": self.get_scale(), "_init_growth_tracker": self._get_growth_tracker()}
            state |= {"_scale": None, "_growth_tracker": None}
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
