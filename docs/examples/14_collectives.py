"""Several devices: a sum over ranks, each a process with a GPU of its own, and a layer that is spread over them.

`torch.distributed` starts and names the ranks; what they exchange goes through kernels that read each other's memory.
Without GPUs each process has a simulated one, and their memory is shared as between GPUs of one machine. Started alone,
the script starts its ranks itself.

    python docs/examples/14_collectives.py --ranks 4
    torchrun --nproc-per-node 2 docs/examples/14_collectives.py
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

import _common as common

import flydsl.runtime as rt

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("SKIP: needs torch")
    sys.exit(0)

from flydsl.kernels import ops
from flydsl.kernels.comm import ColumnParallelLinear, RowParallelLinear

ROWS, WIDTH, INNER = 8, 128, 256


def random(*shape: int, seed: int) -> torch.Tensor:
    """The same values on every rank that asks with the same seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) / shape[-1] ** 0.5


def add_over_ranks(rank: int, ranks: int, device: str) -> None:
    """Every rank has an operand, and gets the sum of all: added in f32 in the order of the ranks, rounded once."""
    operands = [random(ROWS, WIDTH, seed=r).bfloat16() for r in range(ranks)]
    total = ops.all_reduce(operands[rank].to(device))
    exact = sum(x.float() for x in operands).bfloat16()
    common.check(f"rank {rank} of {ranks}, all_reduce", total.float(), exact.float())

    shares = ops.all_gather(ops.reduce_scatter(operands[rank].to(device)))  # the same in two steps
    common.check(f"rank {rank} of {ranks}, reduce_scatter and all_gather", shares.float(), exact.float())


def spread_layers(rank: int, ranks: int, device: str) -> None:
    """Two products by weights of which each rank has a part: the first by columns, the second by rows, then one sum."""
    x, up, down = random(ROWS, WIDTH, seed=1), random(INNER, WIDTH, seed=2), random(WIDTH, INNER, seed=3)
    first = ColumnParallelLinear(up.to(device, torch.bfloat16))
    second = RowParallelLinear(down.to(device, torch.bfloat16))
    with torch.no_grad():
        y = second(ops.silu(first(x.to(device, torch.bfloat16))))
    x, up, down = (t.bfloat16().double() for t in (x, up, down))
    exact = torch.nn.functional.silu(x @ up.T) @ down.T
    common.check(f"rank {rank} of {ranks}, spread layers", y.float(), exact, 0.02)


def main() -> None:
    """Start the ranks, or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="2 to 8")
    ranks = parser.parse_args().ranks
    if "RANK" not in os.environ:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        sys.exit(subprocess.run([*launcher, __file__]).returncode)

    rank = int(os.environ["RANK"])
    if rt.kind() == "rocm":
        torch.cuda.set_device(rank)
    dist.init_process_group("gloo")  # names the ranks and exchanges handles
    if rank == 0:
        print(f"{dist.get_world_size()} ranks on {common.describe_device()}", flush=True)
    device = "cuda" if rt.kind() == "rocm" else "cpu"
    add_over_ranks(rank, dist.get_world_size(), device)
    spread_layers(rank, dist.get_world_size(), device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
