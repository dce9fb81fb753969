"""Device side of the kernels: parts that know no operation."""
