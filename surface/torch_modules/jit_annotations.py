"""`torch.jit.annotations`: the types with which scripted functions are annotated, which Python has, too."""

from __future__ import annotations

from typing import Any, Dict, Final, List, NamedTuple, Optional, Tuple, Union

__all__ = [
    "Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "BroadcastingList4", "BroadcastingList5",
    "BroadcastingList6", "Dict", "Final", "List", "NamedTuple", "Optional", "Tuple", "Union",
]  # fmt: skip

# A list, or one value for all of its items: `BroadcastingList2[int]`.
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = List
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = List
