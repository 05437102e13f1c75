"""`torch.jit.annotations`: the types with which scripted functions are annotated, which Python has, too."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Optional, Union

__all__ = [
    "Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "BroadcastingList4", "BroadcastingList5",
    "BroadcastingList6", "Dict", "Final", "List", "NamedTuple", "Optional", "Tuple", "Union",
]  # fmt: skip

Dict, List, Tuple = dict, list, tuple
# A list, or one value for all of its items: `BroadcastingList2[int]`.
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = list
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = list
