"""Collectives between the GPUs of one machine, by kernels that read the peers' memory."""

from .group import CollectiveError, Communicator, communicator

__all__ = ["CollectiveError", "Communicator", "communicator"]
