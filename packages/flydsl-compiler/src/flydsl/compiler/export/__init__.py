"""Specialisations as object files and headers for C and C++ programs."""
