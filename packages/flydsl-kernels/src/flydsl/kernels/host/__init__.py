"""Host side of the kernels: arrays, dtypes, configurations."""
