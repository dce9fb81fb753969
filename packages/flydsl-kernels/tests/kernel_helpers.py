"""What the kernel tests share: random data, poisoned outputs between guard rows, comparisons with f64 references."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")

from flydsl.kernels.target import target  # noqa: E402

FULL = os.environ.get("FLYDSL_KERNELS_FULL", "") not in ("", "0")  # all sizes: minutes instead of seconds
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
GUARD = 3  # rows before and after an output


def cases(quick: list, full: list) -> list:
    """The quick cases, and with FLYDSL_KERNELS_FULL the others as well."""
    return quick + full if FULL else quick


def random(*shape: int, dtype: str = "f32", seed: int = 0, scale: float = 1.0):
    """Standard-normal data."""
    generator = torch.Generator().manual_seed(seed * 1000003 + sum(shape))
    return (torch.randn(*shape, generator=generator) * scale).to(DTYPES[dtype])


class Guarded:
    """An output of `shape` that starts as NaN (or a pattern), between rows that must stay as they are."""

    def __init__(self, *shape: int, dtype=torch.float32) -> None:
        self.poison = float("nan") if dtype.is_floating_point and dtype.itemsize > 1 else 77
        rows = shape[0] + 2 * GUARD
        storage = torch.empty(rows, *shape[1:], dtype=dtype)
        self.whole = storage
        self._bytes().fill_(77) if dtype.itemsize == 1 else storage.fill_(self.poison)
        self.out = storage[GUARD : GUARD + shape[0]]

    def _bytes(self):
        return self.whole.view(torch.int8) if self.whole.element_size() == 1 else self.whole

    def check(self):
        """The output; fails if a guard row was written."""
        n = self.out.shape[0]
        for part in (self._bytes()[:GUARD], self._bytes()[GUARD + n :]):
            same = part.isnan() if part.is_floating_point() else part == 77
            assert bool(same.all()), "rows outside the output were written"
        return self.out


def fp8_dtype():
    """torch dtype of the architecture's fp8; skips the test where there is none."""
    name = target().fp8_name
    if name is None:
        pytest.skip(f"{target().arch} has no fp8")
    return torch.float8_e4m3fnuz if name.endswith("FNUZ") else torch.float8_e4m3fn


def close(out, ref, tolerance: float, what: str = "") -> None:
    """Maximum absolute difference within `tolerance`, nothing NaN."""
    difference = (out.double() - ref.double()).abs().max().item()
    assert difference <= tolerance, f"{what} maximum difference {difference} > {tolerance}"


def close_relative(out, ref, tolerance: float, what: str = "") -> None:
    """Difference relative to the value, or to the mean magnitude for small values."""
    ref = ref.double()
    error = ((out.double() - ref).abs() / ref.abs().clamp_min(ref.abs().mean())).max().item()
    assert error <= tolerance, f"{what} relative error {error} > {tolerance}"


#: Architectures of attention, experts, convolution; of the general GEMM.
GENERAL_GEMM = ("gfx942", "gfx950", "gfx120", "gfx1250")
DENSE_GEMM = (*GENERAL_GEMM, "gfx90a", "gfx11")


def needs(*archs: str):
    """Skip unless the current architecture starts with one of these."""
    return pytest.mark.needs(*archs)
