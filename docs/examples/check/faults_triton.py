"""Three faults that a GPU usually does not tell, for the page "Check your AMD kernels without a GPU".

    python -m flydsl.runtime check --arch gfx950 -- faults_triton.py
"""

import contextlib

import torch
import triton
import triton.language as tl

import flydsl.runtime as rt
from flydsl.runtime.triton import activate

activate()


@triton.jit
def total_kernel(x, total, BLOCK: tl.constexpr):
    values = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.store(total, tl.load(total) + tl.sum(values))  # tl.atomic_add is missing


@triton.jit
def scale_kernel(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2)   # the store's mask is missing


@triton.jit
def copy_kernel(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))                   # of x, only the first half was written


x = torch.arange(1000, dtype=torch.float32)
half = rt.unwritten(torch.empty(256))                 # says that nobody has written it
half[:128] = x[:128]
total_kernel[(3,)](x, torch.zeros(1), BLOCK=256)
copy_kernel[(1,)](half, torch.zeros(256), BLOCK=256)
with contextlib.suppress(rt.HipError):                # the overrun ends its launch
    scale_kernel[(4,)](x, 1000, BLOCK=256)
