"""Compiled specialisations in use: their fast path, their launches, their C ABI."""
