"""Independent jobs on several threads, for example compiles ahead of time."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["process_count", "run_parallel_jobs"]


def process_count(text: str) -> int:
    """The type of a command's ``--jobs``. ArgumentTypeError for what is no number from 1."""
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"a number of processes from 1, got {text!r}")
    return int(text)


def run_parallel_jobs(
    jobs: Iterable[Any], worker: Callable[[Any], Any] | None = None, max_workers: int | None = None
) -> list[Any]:
    """Results of ``worker(job)``, or of ``job()`` without a worker, in the order of the jobs.

    All jobs run to their end; then the first exception in the order of the jobs is raised. The compiler's caches are
    shared between threads: equal specialisations are compiled once.

    Args:
        max_workers: threads; default: one a CPU.
    """
    call = worker if worker is not None else lambda job: job()
    with ThreadPoolExecutor(max_workers or os.cpu_count() or 1) as pool:
        futures = [pool.submit(call, job) for job in jobs]
    return [future.result() for future in futures]
