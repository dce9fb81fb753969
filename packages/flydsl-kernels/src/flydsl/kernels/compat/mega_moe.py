"""The mixture of experts over several GPUs by its older name: see :mod:`flydsl.kernels.comm.mega`."""

from flydsl.kernels.comm.mega import MegaMoEV2, compile_gemm1, compile_mega_moe_stage1, compile_mega_moe_stage2
from flydsl.kernels.comm.mega_config import MegaMoEConfig, Stage1Config, Stage2Config, select_mega_moe_config
from flydsl.kernels.comm.mega_kernels import gemm1_kernel

__all__ = ["MegaMoEConfig", "MegaMoEV2", "Stage1Config", "Stage2Config", "compile_gemm1", "compile_mega_moe_stage1",
           "compile_mega_moe_stage2", "gemm1_kernel", "select_mega_moe_config"]
