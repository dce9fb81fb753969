"""The steps of an epilogue and the walk that stores apply, on a tile whose accumulators are numbers of their places."""

from types import SimpleNamespace

import pytest
from kernel_helpers import Guarded, close, random, torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.gemm.config import GemmConfig
from flydsl.kernels.parts.epilogue import (
    Activate,
    Bias,
    Epilogue,
    ScaleBoth,
    TilePlace,
    store_tile,
)
from flydsl.kernels.target import target

M = 27  # two tiles of rows, ragged as are the three of columns
WIDTHS = (40, 42, 41)  # whose rows allow stores of 16, 8 and 4 bytes


def steps_of(names, tensors, m, n):
    made = {
        "both": lambda: ScaleBoth(tensors["rows"], tensors["columns"], m, n),
        "half": lambda: ScaleBoth(tensors["rows"], tensors["columns"], m, n, 0.5),
        "bias": lambda: Bias(tensors["bias"], n), "silu": lambda: Activate("silu"), "relu": lambda: Activate("relu"),
        "gelu": lambda: Activate("gelu"),
    }
    return Epilogue(tuple(made[name]() for name in names))


def exact(names, tensors, n):
    value = torch.arange(M, dtype=torch.float64)[:, None] * 0.25 - torch.arange(n, dtype=torch.float64) * 0.125
    wide = {name: t.double() for name, t in tensors.items()}
    for name in names:
        value = {
            "both": lambda v: v * wide["rows"][:, None] * wide["columns"],
            "half": lambda v: v * wide["rows"][:, None] * wide["columns"] * 0.5, "bias": lambda v: v + wide["bias"],
            "silu": torch.nn.functional.silu, "relu": torch.relu,
            "gelu": lambda v: torch.nn.functional.gelu(v, approximate="tanh"),
        }[name](value)
    return value


@flyc.kernel
def tile_kernel(c, tensors, m: fx.Int32, names: fx.Constexpr, n: fx.Constexpr[int], wave: fx.Constexpr[int]):
    lane = fx.thread_idx.x
    group, lane_row = lane // 16, lane % 16
    acc_len = 16 * 16 // wave
    acc = []
    for mi in fx.range_constexpr(2):
        for ni in fx.range_constexpr(3):
            values = []
            for i in fx.range_constexpr(acc_len):
                row, column = mi * 16 + lane_row, ni * 16 + group * acc_len + i
                values.append(fx.Int32(row).to(fx.Float32) * 0.25 - fx.Int32(column).to(fx.Float32) * 0.125)
            acc.append(fx.Vector.from_elements(values, fx.Float32))
    across = [ni * 16 + group * acc_len for ni in fx.range_constexpr(3)]
    place = TilePlace(m, n, fx.Int32(0), m, [lane_row, 16 + lane_row], across, ragged=True)
    store_tile(c, fx.Float32, acc, steps_of(names, tensors, m, n), place)


@pytest.mark.parametrize("n", WIDTHS)
@pytest.mark.parametrize("names", [(), ("half",), ("both",), ("bias",), ("both", "bias", "silu"),
                                   ("bias", "relu", "both"), ("half", "gelu"),
                                   ("both", "bias", "silu", "half", "both")], ids="-".join)
def test_steps_in_their_order(names, n):
    tensors = {"rows": random(M).abs() + 0.5, "columns": random(n, seed=1), "bias": random(n, dtype="bf16", seed=2)}
    wave, out = target().wave, Guarded(M, n)

    @flyc.jit
    def launch(c, rows, columns, bias, m: fx.Int32, stream: fx.Stream = fx.Stream(None)):
        operands = {"rows": rows, "columns": columns, "bias": bias}
        tile_kernel(c, operands, m, names, n, wave).launch(grid=1, block=wave, stream=stream)

    launch(out.out, *tensors.values(), M)
    reference = exact(names, tensors, n)
    close(out.check(), reference, 2e-6 * max(1.0, float(reference.abs().max())))


def test_the_options_of_the_gemms_are_steps():
    tensors = dict.fromkeys(("scale_a", "scale_b", "bias"))
    kinds = {
        ("none", False, 1): (), ("none", True, 1): (ScaleBoth,), ("bias", False, 1): (Bias,),
        ("bias_silu", True, 16): (ScaleBoth, Bias, Activate),
    }
    for (activation, scaled, divisor), expected in kinds.items():
        config = SimpleNamespace(n=8, row_scales=scaled)
        made = GemmConfig.finish(config, tensors, 4, activation, divisor=divisor)
        assert tuple(map(type, made.steps)) == expected
    with pytest.raises(ValueError, match="by way of the scales of their rows"):
        GemmConfig.finish(SimpleNamespace(n=8, row_scales=False), tensors, 4, divisor=16)
