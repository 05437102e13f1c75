"""`plugrad.amp`: mixed precision. Autocast chooses a dtype for each op; GradScaler keeps small gradients.

Which dtype an op is computed in is said by its record, `autocast=` in its decorator; see `plugrad.amp.policies`.
"""

from __future__ import annotations

from plugrad.amp.autocast_mode import *  # noqa: F403 - its state is public in plugrad itself
from plugrad.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from plugrad.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
