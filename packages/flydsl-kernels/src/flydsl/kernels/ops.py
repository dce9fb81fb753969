"""Functional forms of the kernels: arrays in, fresh arrays out.

Arrays are NumPy arrays or torch tensors of any strides; what is not contiguous is copied first. Torch tensors go
through ``torch.ops.flydsl.*``, so that autograd, fake tensors and ``torch.compile`` see one operator; NumPy arrays
launch directly. The forms are made from the declarations in the families' ``op`` modules (:mod:`flydsl.kernels.op`).
"""

from __future__ import annotations

from typing import Any

from .op import declarations, operators

_FORMS = {d.name: d.function for d in declarations() if d.public}

__all__ = sorted(_FORMS)  # noqa: PLE0605 - made from the declarations

globals().update(_FORMS)


def _torch() -> Any:
    """The namespace ``torch.ops.flydsl``, registered."""
    return operators()


def __getattr__(name: str) -> Any:
    import difflib

    near = difflib.get_close_matches(name, __all__)
    known = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(__all__)}"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {known}")
