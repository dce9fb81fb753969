"""Older module names, importable as ``flydsl.kernels.<name>``: this folder is on the package's path."""
