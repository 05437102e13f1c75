# Written by `plugrad stubs`.
# mypy: disable-error-code="override"
import builtins as _b
import typing as _t

import plugrad as _p
import plugrad.return_types as _r

def attribute(module: _b.str, name: _b.str, error: _t.Any) -> _t.Any: ...
from plugrad.utils import checkpoint as checkpoint
from plugrad.utils import data as data
def swap_tensors(t1: _t.Any, t2: _t.Any) -> None: ...
