"""Names of callers whose kernels this library has in another form: each says what to call instead."""

from __future__ import annotations

from typing import Any

__all__ = [
    "compile_gemm1_a16w4_port", "compile_gemm1_a4w4_port", "compile_gemm2_a16w4_port", "compile_gemm2_a4w4_port",
    "compile_mixed_moe_gemm1", "compile_mixed_moe_gemm2", "flydsl_a16w4_gemm1", "flydsl_a16w4_gemm2",
    "flydsl_mxfp4_gemm1", "flydsl_mxfp4_gemm2", "launch_moe_gemm_a8w4",
]

_INSTEAD = {"a16w4": "a16w4 (or int4 with groups)", "mxfp4": "mxfp4", "a4w4": "mxfp4", "a8w4": "a8w4",
            "mixed": "the format"}


def _missing(name: str) -> Any:
    quant = next(value for key, value in _INSTEAD.items() if key in name)

    def missing(*arguments: Any, **options: Any) -> None:
        raise NotImplementedError(f"{name} takes operands in an order that no kernel here has; flydsl.kernels.ops.moe "
                                  f"with quant={quant!r} computes both products from plain weights")

    missing.__name__, missing.__doc__ = name, f"NotImplementedError: `ops.moe` with quant={quant!r} takes its place."
    return missing


compile_gemm1_a16w4_port = _missing("compile_gemm1_a16w4_port")
compile_gemm2_a16w4_port = _missing("compile_gemm2_a16w4_port")
compile_gemm1_a4w4_port = _missing("compile_gemm1_a4w4_port")
compile_gemm2_a4w4_port = _missing("compile_gemm2_a4w4_port")
compile_mixed_moe_gemm1 = _missing("compile_mixed_moe_gemm1")
compile_mixed_moe_gemm2 = _missing("compile_mixed_moe_gemm2")
flydsl_a16w4_gemm1 = _missing("flydsl_a16w4_gemm1")
flydsl_a16w4_gemm2 = _missing("flydsl_a16w4_gemm2")
flydsl_mxfp4_gemm1 = _missing("flydsl_mxfp4_gemm1")
flydsl_mxfp4_gemm2 = _missing("flydsl_mxfp4_gemm2")
launch_moe_gemm_a8w4 = _missing("launch_moe_gemm_a8w4")
