"""What Python's own message should have said, where user code takes a value of the language for something else."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable
from types import ModuleType

__all__ = ["missing_in_module", "misuse", "with_article"]

#: What Python, NumPy or torch say of a value of the language that they were given, and what to write instead.
_NUMBER = r"(?:B?Float\w*|U?[Ii]nt\d+|Boolean|Index)"
_VALUE = rf"(?:{_NUMBER}|Tensor|Vector|Pointer|IntTuple|Layout)"
_OPERANDS = "operands are values of the language, Python and NumPy numbers"
_ELEMENTWISE = "values have fx.sqrt, fx.exp and the like"
_INSTEAD = [
    (rf"object of type '{_VALUE}' has no len", "its extents are .shape, and fx.size(x) is the number of elements"),
    (rf"'{_VALUE}' object is not callable", "elements are read with [...]"),
    (r"'Tuple3D' object is not callable", "the indices are attributes, fx.thread_idx.x"),
    (r"'Vector' object does not support item assignment",
     "a Vector is a value; make a new one with fx.Vector.from_elements([...]), or keep the lanes in memory of the "
     "thread, fx.make_rmem_tensor(n, dtype)"),
    (rf"type {_NUMBER} doesn't define __round__", "fx.roundeven(x) rounds as Python does, and stays a device value"),
    (rf"unsupported format string passed to {_VALUE}\.__format__",
     "it has no value while tracing; fx.printf('{:.3f}', x) prints it on the device"),
    (rf"operand '(?:{_VALUE}|ArithValue)' does not support ufuncs|Concatenation operation is not implemented for NumPy",
     f"NumPy computes while tracing, and its arrays are no operands; {_ELEMENTWISE}"),
    (rf"loop of ufunc .* of type {_VALUE}", f"NumPy computes while tracing; {_ELEMENTWISE}"),
    (rf"must be Tensor, not {_VALUE}", f"torch computes while tracing; {_ELEMENTWISE}"),
    (rf"unsupported operand type\(s\) for .*'{_VALUE}'", _OPERANDS),
    (rf"argument of type '{_VALUE}' is not iterable|argument of type '{_VALUE}' is not a container",
     "`in` needs values that are known while tracing; compare with == in a loop"),
    (r"'KernelFunction' object is not subscriptable",
     "grid and block are those of the launch, kernel(...).launch(grid=..., block=...)"),
    (r"only integers, slices .* are valid indices",
     "NumPy is indexed while tracing; pass the array to the kernel as a tensor, or choose with fx.where"),
]

#: Attributes of arrays of NumPy and torch, or of another object of the language: (classes, names, what to write).
_HERE_INSTEAD = [
    ("Tensor Vector Layout", "size numel nelement", "fx.size(x) is the number of elements"),
    ("Tensor Layout", "ndim dim", "fx.rank(x) is the number of modes"),
    ("Numeric Vector", "astype", ".to(fx.Float16) converts"),
    ("Numeric Vector", "item tolist numpy", "a run-time value has no number while tracing; store it to a tensor"),
    ("Tensor", "to astype float half", "elements are converted once they are loaded, t[i].to(fx.Float16)"),
    ("Tensor", "T reshape view flatten transpose permute",
     "fx.make_view(fx.get_iter(t), layout) shows the same elements in another layout"),
    ("Tensor", "sum mean max min", "load the elements (t.load().reduce('add')), or reduce them in a loop"),
    ("Vector", "sum mean max min", "x.reduce('add') combines the elements, 'max' and 'min' too"),
    ("Numeric", "sum mean max min", "it is one number; fx.coop.BlockReduce combines those of the threads of a block"),
    ("Tensor", "ptr pointer data_ptr data", "fx.get_iter(t) is the pointer to its first element"),
    ("TiledCopy", "partition_S partition_D retile", "these are of the part of one thread, .get_slice(fx.thread_idx.x)"),
    ("KernelFunction", "launch", "a call is launched, kernel(...).launch(grid=..., block=...)"),
    ("TiledMma", "partition_A partition_B partition_C",
     "these are of the part of one thread, .get_slice(fx.thread_idx.x)"),
]

#: Names of CuTe and CUDA that a module of ours does not have: what to write.
_NAME_INSTEAD = {
    "arch": "indices and barriers are fx.thread_idx.x, fx.block_idx.x, fx.barrier()",
    "cute": "its functions are fx.make_layout and so on",
    "local_tile": "fx.flat_divide(t, tile)[None, None, i, j] is the tile (i, j)",
    "make_tensor": "fx.make_view(pointer, layout), in registers fx.make_rmem_tensor(shape, dtype)",
    "make_swizzle": "fx.static(fx.SwizzleType.get(mask, base, shift))",
    "syncthreads sync_threads": "fx.barrier()",
    "threadIdx blockIdx blockDim gridDim": "fx.thread_idx, fx.block_idx, fx.block_dim, fx.grid_dim",
    "zeros ones": "fx.full(shape, value, dtype)",
    "make_fragment_A make_fragment_B make_fragment_C": "a method of the tiled MMA, mma.make_fragment_A(tile)",
}


def with_article(name: str) -> str:
    """``an Int32``, ``a Uint32``."""
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


def _elsewhere(classes: list[type], name: str) -> str:
    """What to write instead of an attribute of arrays, or of another object of the language; "" if it is neither."""
    known = {c.__name__ for c in classes}
    return next((f": {instead}" for holders, names, instead in _HERE_INSTEAD
                 if name in names.split() and known & set(holders.split())), "")


def _public(module: ModuleType) -> list[str]:
    """Names of a module that are its own, and not of what it imports from elsewhere."""
    return [n for n, value in vars(module).items()
            if not isinstance(value, ModuleType) or value.__name__.startswith("flydsl.")]


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(n for n in known if not n.startswith("_")), 3, 0.5)
    return f"; did you mean {', '.join(near)}?" if near else ""


def _near_in(module: ModuleType, name: str) -> str:
    instead = next((text for names, text in _NAME_INSTEAD.items() if name in names.split()), "")
    return f": {instead}" if instead else _near(name, _public(module))


def misuse(error: BaseException) -> str:
    """What to say of an error that Python, NumPy or torch raised over a value of the language; "" for any other."""
    if isinstance(error, AttributeError):
        holder, name = getattr(error, "obj", None), getattr(error, "name", None)
        if name and isinstance(holder, ModuleType) and holder.__name__.startswith("flydsl."):
            return str(error) + _near_in(holder, name)
        if not name or not type(holder).__module__.startswith(("flydsl.", "flydsl._mlir")):
            return ""
        classes = [c for c in type(holder).__mro__ if c.__module__.startswith(("flydsl.expr", "flydsl.compiler"))]
        near = _elsewhere(classes, name) or _near(name, {n for c in classes for n in vars(c)})
        return f"{with_article(type(holder).__name__)} has no attribute {name!r}{near}"
    if isinstance(error, KeyError):
        key = error.args[0] if error.args else None
        if not type(key).__module__.startswith("flydsl.expr"):
            return ""
        return (f"no entry for {key!r}: a dictionary is looked up while tracing, when the value is not known; "
                "look up what is (fx.Constexpr), or choose on the device with fx.where")
    if not isinstance(error, (TypeError, IndexError)):
        return ""
    return next((f"{error}: {instead}" for said, instead in _INSTEAD if re.search(said, str(error))), "")


def missing_in_module(message: str) -> str:
    """Names like the one that a module of ours does not have."""
    found = re.fullmatch(r"module '(flydsl\.[\w.]+)' has no attribute '(\w+)'", message)
    return _near_in(sys.modules[found[1]], found[2]) if found and found[1] in sys.modules else ""
