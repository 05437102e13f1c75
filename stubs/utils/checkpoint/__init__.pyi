# Written by `plugrad stubs`.
# mypy: disable-error-code="override"
import builtins as _b
import typing as _t

import plugrad as _p
import plugrad.return_types as _r

class CheckpointError(_b.RuntimeError): ...
def checkpoint(function: _t.Any, *args: _t.Any, use_reentrant: _t.Any = ..., preserve_rng_state: _t.Any = ..., **kwargs: _t.Any) -> _t.Any: ...
def checkpoint_sequential(functions: _t.Any, segments: _t.Any, input: _t.Any, use_reentrant: _t.Any = ..., **options: _t.Any) -> _t.Any: ...
