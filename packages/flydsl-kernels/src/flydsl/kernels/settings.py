"""The variables of the environment that kernels read, beside those of the compiler (:mod:`flydsl.utils.env`)."""

from __future__ import annotations

from flydsl.utils.env import EnvManager, OptBool, OptStr

__all__ = ["kernels"]


class _Kernels(EnvManager):
    group = "kernels"
    reuse_out = OptBool(False, "FlyDSLAllreduce: results of one shape and dtype lie in one allocation",
                        env_var="FLYDSL_AITER_REUSE_OUT")
    all_reduce = OptStr("flydsl", "init_custom_ar: the implementation; there is no other", env_var="FLYDSL_AITER_IMPL")
    conv_autotune = OptBool(False, "conv3d_implicit: search for the tile of a new shape",
                            env_var="FLYDSL_CONV3D_AUTOTUNE")


kernels = _Kernels()
