"""Traces of marks that kernels set (`flydsl.expr.ktrace`): device records, capture, Perfetto files."""
