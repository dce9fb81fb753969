"""Production kernels: one subpackage an operation, functional forms in :mod:`flydsl.kernels.ops`."""

__version__ = "0.1.0"
