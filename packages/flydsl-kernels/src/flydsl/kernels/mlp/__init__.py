"""Gated layers of dense models."""
