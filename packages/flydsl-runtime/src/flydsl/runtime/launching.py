"""What a front end launches with: from the objects of a call to a launch.

`Dispatcher` binds the arguments of a call and finds the `Launcher` of what they are, while `Guards` say that what the
compiled code depends on has not changed; `reserve_type` leaves calls with a value of a type to the front end.
A jit function is made of these (see the README, section "From a call to its launcher"); programs use
`flydsl.runtime.Launcher` and `load_artifact`.
"""

from __future__ import annotations

from ._errors import PartialWordError
from ._native import MAX_DISPATCH_PARAMETERS, Dispatcher, Guards, Launcher, library_info, reserve_type
from ._plans import remember

__all__ = [
    "Dispatcher", "Guards", "Launcher", "MAX_DISPATCH_PARAMETERS", "PartialWordError", "library_info", "remember",
    "reserve_type",
]
