"""Our probability distributions. Importing one imports all of them: divergences are between any two."""

from __future__ import annotations

from plugrad.plugins.distributions import kl_rules  # noqa: F401
