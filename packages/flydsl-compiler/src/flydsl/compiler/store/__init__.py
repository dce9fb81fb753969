"""Compiled artifacts on disk: their format, their cache, and the identity of the toolchain that made them."""
