"""What the kernels share: architectures, element types, rows of matrices, reductions, conversions."""
