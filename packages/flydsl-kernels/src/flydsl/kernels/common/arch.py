"""The older place of :mod:`flydsl.kernels.target`."""

from ..target import Target, current_arch, default_f8_type, target

__all__ = ["Target", "current_arch", "default_f8_type", "target"]
