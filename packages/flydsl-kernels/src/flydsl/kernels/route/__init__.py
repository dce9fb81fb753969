"""Routing: the best experts of a token by their scores."""
