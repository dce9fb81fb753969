"""Bytes that the row kernels move to and from memory, as the simulator counts them: each input and output once.

Where a second pass is unavoidable (the maximum of a whole tensor, rows longer than the registers) the minimum says so.
"""

import os

import pytest
from kernel_helpers import needs, random, torch

import flydsl.runtime as rt
from flydsl.kernels import elementwise, moe, norm, quant, softmax
from flydsl.kernels.target import current_arch, target

profiling = pytest.importorskip("flydsl.runtime.profiling")
COUNTERS = True
pytestmark = pytest.mark.skipif(
    rt.kind() != "sim" or bool(os.environ.get("FLYDSL_SIM_CHECK")), reason="counters of an unchecked simulator"
)

M, N = 64, 4096
MX_QUANT = {"fp4": "mx fp4 quant", "fp8": "mx fp8 quant"}  # by instructions that gfx950 alone has
ODD = (37, 2999)  # neither a multiple of anything nor of a line of 128 bytes


def total(*tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


class Case:
    """A launch, the tensors it must read and those it must write; `again`: read by a second pass."""

    def __init__(self, launcher, arguments, reads, writes, again=()):
        self.launcher, self.arguments = launcher, arguments
        self.read, self.written = total(*reads, *again), total(*writes)


def norm_cases(m, n, dtype):
    x, r, w, b, s = (random(*k, dtype=dtype, seed=i) for i, k in enumerate(((m, n), (m, n), (n,), (n,), (n,))))
    y, added, q = torch.empty_like(x), torch.empty_like(x), torch.empty(m, n, dtype=torch.int8)
    stat, stat2 = torch.ones(m), torch.ones(m)
    table = {}
    for centered in (False, True):
        kind = "layernorm" if centered else "rmsnorm"
        bias = [b] * centered
        stats = [stat, stat2] if centered else [stat]
        table[kind] = Case(getattr(norm, f"build_{kind}_module")(n, dtype), (x, w, *bias, y, m), [x, w, *bias], [y])
        table[f"{kind} with statistics"] = Case(
            getattr(norm, f"build_{kind}_module")(n, dtype, True),
            (x, w, *bias, y, *stats, m),
            [x, w, *bias],
            [y, *stats],
        )
        table[f"fused_add_{kind}"] = Case(
            getattr(norm, f"build_fused_add_{kind}_module")(n, dtype),
            (x, r, w, *bias, y, added, m),
            [x, r, w, *bias],
            [y, added],
        )
        for smooth in (False, True):
            scale, word = [s] * smooth, "smooth" if smooth else "dynamic"
            vectors = [w, *bias, *scale]
            table[f"{kind}_{word}quant"] = Case(
                getattr(norm, f"build_{kind}_{word}quant_module")(n, dtype),
                (x, *vectors, q, stat, m),
                [x, *vectors],
                [q, stat],
            )
            table[f"fused_add_{kind}_{word}quant"] = Case(
                getattr(norm, f"build_fused_add_{kind}_{word}quant_module")(n, dtype),
                (x, r, *vectors, q, added, stat, m),
                [x, r, *vectors],
                [q, added, stat],
            )
    dw, db, dx = torch.zeros(n), torch.zeros(n), torch.empty_like(x)
    # Gradients of weights are added to what is there: read and written.
    table["rmsnorm_bwd"] = Case(
        norm.build_rmsnorm_bwd_module(n, dtype), (x, w, r, stat, dx, dw, m), [x, w, r, stat, dw], [dx, dw]
    )
    table["fused_add_rmsnorm_bwd"] = Case(
        norm.build_fused_add_rmsnorm_bwd_module(n, dtype),
        (x, w, r, y, stat, dx, dw, m),
        [x, w, r, y, stat, dw],
        [dx, dw],
    )
    table["layernorm_bwd"] = Case(
        norm.build_layernorm_bwd_module(n, dtype),
        (x, w, r, stat, stat2, dx, dw, db, m),
        [x, w, r, stat, stat2, dw, db],
        [dx, dw, db],
    )
    programs = 4
    partial, dw_out = torch.empty(programs * n), torch.empty_like(w)
    table["rmsnorm_bwd_two_stage"] = Case(
        norm.build_rmsnorm_bwd_two_stage_module(n, dtype, programs),
        (x, w, r, stat, dx, dw_out, partial, m),
        [x, w, r, stat, partial],
        [dx, dw_out, partial],
    )
    table["fused_add_rmsnorm_bwd_two_stage"] = Case(
        norm.build_fused_add_rmsnorm_bwd_two_stage_module(n, dtype, programs),
        (x, w, r, y, stat, dx, dw_out, partial, m),
        [x, w, r, y, stat, partial],
        [dx, dw_out, partial],
    )
    return table


def other_cases(m, n, dtype):
    x, y = random(m, n, dtype=dtype), random(m, n, dtype=dtype, seed=1)
    out, q, stat = torch.empty_like(x), torch.empty(m, n, dtype=torch.int8), torch.ones(m)
    groups, blocks = -(-n // 128), -(-m // 128)
    group, block, one, amax = torch.ones(m, groups), torch.ones(blocks, groups), torch.ones(1), torch.zeros(1)
    table = {
        "softmax": Case(softmax.build_softmax_module(m, n, dtype), (x, out, m), [x], [out]),
        "softmax_bwd": Case(softmax.build_softmax_bwd_module(n, dtype), (x, y, out, m), [x, y], [out]),
        "quant": Case(quant.build_quant_module(n, dtype)[0], (x, q, stat, m), [x], [q, stat]),
        "quant i4": Case(quant.build_quant_module(n, dtype, "i4")[0], (x, q, stat, m), [x], [q, stat]),
        "quant per group": Case(quant.build_per_group_quant_module(n, dtype, "i8"), (x, q, group, m), [x], [q, group]),
        "quant per block": Case(quant.build_per_block_quant_module(n, dtype, "i8"), (x, q, block, m), [x], [q, block]),
        "quant per tensor": Case(
            quant.build_per_tensor_quant_module(n, dtype, "i8"),
            (x, q, one, amax, m),
            [x, amax],
            [q, one, amax],
            again=[x],
        ),
        "quant per tensor, given scale": Case(
            quant.build_per_tensor_quant_module(n, dtype, "i8", dynamic=False), (x, q, one, amax, m), [x, one], [q]
        ),
        "dequant": Case(quant.build_dequant_module(n, dtype, "i8"), (q, stat, out, m), [q, stat], [out]),
        "dequant of groups": Case(
            quant.build_dequant_module(n, dtype, "i8", group=128), (q, group, out, m), [q, group], [out]
        ),
        "dequant of blocks": Case(
            quant.build_dequant_module(n, dtype, "i8", group=128, block_rows=128), (q, block, out, m), [q, block], [out]
        ),
    }
    if n % 8 == 0:
        half, scale = torch.empty(m, n // 2, dtype=torch.uint8), torch.ones(m, -(-n // 32))
        table |= {
            "add": Case(elementwise.build_add_module(dtype), (x, y, out, m, n), [x, y], [out]),
            "int4 quant": Case(quant.build_int4_quant_module(n, dtype), (x, half, scale, m), [x], [half, scale]),
            "int4 quant of rows": Case(
                quant.build_int4_quant_module(n, dtype, group=0), (x, half, stat, m), [x], [half, stat]
            ),
            "int4 dequant": Case(
                quant.build_int4_dequant_module(n, dtype), (half, scale, out, m), [half, scale], [out]
            ),
            "int4 pack": Case(quant.build_int4_pack_module(n), (q, half, m), [q], [half]),
            "int4 unpack": Case(quant.build_int4_unpack_module(n), (half, q, m), [half], [q]),
        }
        e8m0, bf16 = torch.full((m, n // 32), 127, dtype=torch.uint8), x.bfloat16()
        for mode, data in (("fp4", half), ("fp8", q)):
            table[f"mx {mode} dequant"] = Case(
                quant.build_mx_dequant_module(n, mode, dtype), (data, e8m0, out, m), [data, e8m0], [out]
            )
            if current_arch() == "gfx950":
                table[MX_QUANT[mode]] = Case(
                    quant.build_per_1x32_mx_quant_module(n, mode),
                    (bf16, data, e8m0, m, -(-m * n // 32 // 64)),
                    [bf16],
                    [data, e8m0],
                )
    return table


def gating_cases():
    table = {}
    for experts in (64, 100):
        tokens, k = 256, 4
        scores = random(tokens, experts, dtype="bf16")
        outs = [torch.empty(tokens, k) for _ in range(3)]
        table[f"topk_gating_softmax of {experts}"] = Case(
            moe.build_topk_gating_softmax_module(experts, k), (scores, *outs, tokens), [scores], outs
        )
    return table


CASES = {
    **{(k, "aligned"): c for k, c in {**norm_cases(M, N, "bf16"), **other_cases(M, N, "bf16")}.items()},
    **{(k, "odd"): c for k, c in {**norm_cases(*ODD, "f16"), **other_cases(*ODD, "f16")}.items()},
    **{(k, ""): c for k, c in gating_cases().items()},
}


@pytest.mark.each_wave_size
@pytest.mark.parametrize("name", [pytest.param(name, marks=needs("gfx950")) if name[0] in MX_QUANT.values() else name
                                  for name in CASES], ids=" ".join)
def test_each_byte_is_moved_once(name):
    case = CASES[name]
    with profiling.profile() as result:
        case.launcher(*case.arguments)
    traffic = [launch.traffic() for launch in result.launches]
    read, written = (sum(t[f"memory_{w}"] for t in traffic) for w in ("read", "written"))
    assert case.read <= read <= 1.05 * case.read or read - case.read < 256
    assert case.written <= written <= 1.05 * case.written or written - case.written < 256


@pytest.mark.parametrize("name", ["rmsnorm", "layernorm", "softmax", "quant"])
def test_long_rows_stay_in_registers(name):
    """65536 elements, the longest row that a workgroup holds, are still read once."""
    n = 65536
    case = {**norm_cases(2, n, "f32"), **other_cases(2, n, "f32")}[name]
    with profiling.profile() as result:
        case.launcher(*case.arguments)
    assert case.read <= result[0].traffic()["memory_read"] <= 1.05 * case.read
    assert target().wave in (32, 64)


@pytest.mark.parametrize(("n", "dtype", "operands"), [
    (16384, "f32", 2), (16640, "f32", 2), (32768, "f32", 2), (65536, "f32", 3), (69632, "f32", 4),
    (16384, "bf16", 2), (32768, "bf16", 2), (65536, "bf16", 3), (69632, "bf16", 4)])
def test_operands_of_the_gradient_of_softmax_that_are_loaded_again(n, dtype, operands):
    """Long rows are not found in L2 again: what registers hold of them is loaded once."""
    m = 2
    dy, y, dx = (random(m, n, dtype=dtype, seed=seed) for seed in range(3))
    with profiling.profile() as result:
        softmax.build_softmax_bwd_module(n, dtype)(dy, y, dx, m)
    loaded, size = result[0].traffic()["loaded"], y.numel() * y.element_size()
    assert operands * size <= loaded <= operands * size * 1.01
    assert operands <= 4 - softmax.softmax_bwd_buffered_operands(n, dtype)
    p, g = y.double(), dy.double()
    exact = p * (g - (g * p).sum(-1, keepdim=True))
    assert (dx.double() - exact).abs().max() <= exact.abs().max() * {"f32": 1e-5, "bf16": 1e-2}[dtype]
