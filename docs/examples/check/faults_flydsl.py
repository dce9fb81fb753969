"""Three faults that a GPU usually does not tell, for the page "Check your AMD kernels without a GPU".

    python -m flydsl.runtime check -- faults_flydsl.py
"""

import contextlib

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt


@flyc.kernel
def reverse_kernel(X: fx.Tensor, Y: fx.Tensor):
    @fx.struct
    class Shared:
        cells: fx.Array[fx.Float32, 256, 16]

    cells = fx.SharedAllocator().allocate(Shared).peek().cells.view(fx.make_layout(256, 1))
    i = fx.thread_idx.x
    cells[i] = X[i]
    Y[i] = cells[255 - i]           # fx.gpu.barrier() is missing


@flyc.kernel
def scale_kernel(X: fx.Tensor):
    i = fx.block_idx.x * 256 + fx.thread_idx.x
    X[i] = X[i] * 2.0               # the last work-group has work-items beyond the array


@flyc.kernel
def copy_kernel(X: fx.Tensor, Y: fx.Tensor):
    i = fx.thread_idx.x
    Y[i] = X[i]                     # of X, only the first half was written


@flyc.jit
def reverse(X: fx.Tensor, Y: fx.Tensor):
    reverse_kernel(X, Y).launch(grid=1, block=256)


@flyc.jit
def scale(X: fx.Tensor):
    scale_kernel(X).launch(grid=4, block=256)


@flyc.jit
def copy(X: fx.Tensor, Y: fx.Tensor):
    copy_kernel(X, Y).launch(grid=1, block=256)


x = np.arange(1000, dtype=np.float32)
half = rt.unwritten(np.empty(256, np.float32))  # says that nobody has written it
half[:128] = x[:128]
y = np.zeros(256, np.float32)
reverse(x[:256], y)
copy(half, y)
with contextlib.suppress(rt.HipError):          # the overrun ends its launch
    scale(x)
