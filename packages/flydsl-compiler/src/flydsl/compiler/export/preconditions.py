"""What a plan asks of the tensors of a call, as C: the checks that a Python call makes when it binds its arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flydsl.runtime.plan import TensorArgument

from ..specialization.jit_argument import dtype_bits

__all__ = ["HELPERS", "check_lines", "described"]

HELPERS = r"""
typedef struct {
  int rank, words_of; /* elements in a word of 32 bits, where the kernel copies whole ones; else 0 */
  int64_t align, element_bytes, max_bytes;
  const int64_t *shape_div, *stride_div;
} Wanted;

static int fits(const void *data, const int64_t *shape, const int64_t *stride, Wanted wanted) {
  if ((uintptr_t)data & (uintptr_t)(wanted.align - 1))
    return 0;
  __int128 span = 1;
  int empty = 0, inner = 0; /* inner: a dimension of several consecutive elements */
  for (int i = 0; i < wanted.rank; ++i) {
    if (shape[i] < 0 || shape[i] % wanted.shape_div[i] != 0 ||
        (shape[i] != 1 && stride[i] % wanted.stride_div[i] != 0))
      return 0;
    empty |= shape[i] == 0;
    inner |= stride[i] == 1 && shape[i] > 1;
    span += (__int128)(shape[i] - 1) * (stride[i] < 0 ? -(__int128)stride[i] : stride[i]);
  }
  if (empty)
    return 1;
  if (!data || (wanted.max_bytes && span * wanted.element_bytes > wanted.max_bytes))
    return 0;
  for (int i = 0; i < wanted.rank && wanted.words_of > 1; ++i) {
    const int64_t steps = stride[i] == 1 ? shape[i] : stride[i];
    if (!(shape[i] == 1 && (stride[i] != 1 || inner)) && steps % wanted.words_of != 0)
      return 0;
  }
  return 1;
}
"""


def _element_bytes(dtype: str) -> int:
    return max(1, dtype_bits(dtype) // 8)


def _words_of(entry: dict[str, Any]) -> int:
    return 4 // _element_bytes(entry["dtype"]) if entry.get("words") else 0


def check_lines(arguments: list[dict[str, Any]], data: dict[int, int],
                extent: Callable[[str, int, int, str], list[str]]) -> list[str]:
    """Statements that return the error of a tensor argument which is none that the kernel was compiled for.

    Args:
        arguments: the plan's entries.
        data: position in ``args`` of an entry's pointer.
        extent: ("shape" or "stride", entry, dimension, target) -> the statements that assign it.
    """
    lines: list[str] = []
    for i, entry in enumerate(arguments):
        if entry["kind"] != "tensor":
            continue
        tensor = TensorArgument.of(entry)
        rank, size = len(tensor.shape), max(1, len(tensor.shape))
        lines += ["{", f"  int64_t shape[{size}] = {{0}}, stride[{size}] = {{0}};"]
        for dim in range(rank):
            lines += [f"  {text}" for what in ("shape", "stride") for text in extent(what, i, dim, f"{what}[{dim}]")]
        for what in ("shape_div", "stride_div"):
            divisors = [d or 1 for d in getattr(tensor, what) or ()] or [1] * size
            lines.append(f"  static const int64_t {what}[{size}] = {{{', '.join(map(str, divisors))}}};")
        lines += [f"  const Wanted wanted = {{{rank}, {_words_of(entry)}, {tensor.align}, "
                  f"{_element_bytes(tensor.dtype)}, {entry.get('max_bytes') or 0}, shape_div, stride_div}};",
                  f"  if (!fits(*(void *const *)args[{data[i]}], shape, stride, wanted))",
                  "    return FLYDSL_AOT_ERR_INVALID_ARGUMENT;", "}"]
    return lines


def described(arguments: list[dict[str, Any]]) -> Iterator[str]:
    """For the header: what a call has to pass, one line a tensor."""
    for entry in arguments:
        if entry["kind"] != "tensor":
            continue
        tensor = TensorArgument.of(entry)
        shape = ", ".join("?" if n is None else str(n) for n in tensor.shape)
        stride = ", ".join("?" if n is None else str(n) for n in tensor.strides)
        told = [f"{tensor.name}: {tensor.dtype}, shape ({shape}), strides ({stride}) in elements, "
                f"address a multiple of {tensor.align} bytes"]
        for what, divisors in (("extents", tensor.shape_div), ("strides", tensor.stride_div)):
            if any(d and d > 1 for d in divisors or ()):
                told.append(f"{what} multiples of ({', '.join(str(d or 1) for d in divisors or ())})")
        if entry.get("max_bytes"):
            told.append(f"spans at most {entry['max_bytes']} bytes")
        if _words_of(entry) > 1:
            told.append(f"rows and end are whole 32-bit words ({_words_of(entry)} elements)")
        yield "; ".join(told)
