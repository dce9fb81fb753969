"""Lets the modules of torch models run the kernels, and reports every site."""

from .rules import CallSite, PatchReport, patch

__all__ = ["CallSite", "PatchReport", "patch"]
