"""A kernel of your own as an operator of torch: with a gradient, and whole under `torch.compile`.

A launch is opaque to torch. `torch.library.custom_op` gives it a name, `register_fake` says what comes out without
running it (`torch.compile` asks for that), and `register_autograd` says which operator computes the gradient.

    python docs/examples/15_torch_operator.py
"""

from __future__ import annotations

import sys

import _common as common

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt

try:
    import torch
except ImportError:
    print("SKIP: needs torch")
    sys.exit(0)

THREADS = 256


@flyc.kernel
def squared_relu_kernel(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    """Y = max(X, 0)^2, one value a thread."""
    i = fx.block_idx.x * THREADS + fx.thread_idx.x
    if i < n:
        kept = fx.maximumf(X[i], 0.0)
        Y[i] = kept * kept


@flyc.kernel
def squared_relu_gradient_kernel(X: fx.Tensor, DY: fx.Tensor, DX: fx.Tensor, n: fx.Int32):
    """DX = 2 max(X, 0) DY, one value a thread."""
    i = fx.block_idx.x * THREADS + fx.thread_idx.x
    if i < n:
        DX[i] = 2.0 * fx.maximumf(X[i], 0.0) * DY[i]


@flyc.jit
def squared_relu(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32, stream: fx.Stream):
    """Of n float32 values."""
    squared_relu_kernel(X, Y, n).launch(grid=fx.ceildiv(n, THREADS), block=THREADS, stream=stream)


@flyc.jit
def squared_relu_gradient(X: fx.Tensor, DY: fx.Tensor, DX: fx.Tensor, n: fx.Int32, stream: fx.Stream):
    """Of n float32 values and the gradient of the result."""
    squared_relu_gradient_kernel(X, DY, DX, n).launch(grid=fx.ceildiv(n, THREADS), block=THREADS, stream=stream)


def current_stream():
    """Where torch launches now; None, the default stream, on the simulator."""
    return torch.cuda.current_stream() if rt.kind() == "rocm" else None


# The functions behind an operator get tensors without history, return new ones, and launch on torch's stream.
@torch.library.custom_op("example::squared_relu", mutates_args=())
def forward(x: torch.Tensor) -> torch.Tensor:
    """Of float32 of any shape and stride."""
    x = x.contiguous()
    y = torch.empty_like(x)
    squared_relu(x.view(-1), y.view(-1), x.numel(), current_stream())
    return y


@torch.library.custom_op("example::squared_relu_gradient", mutates_args=())
def gradient(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    """Of the same shape."""
    x, dy = x.contiguous(), dy.contiguous()
    dx = torch.empty_like(x)
    squared_relu_gradient(x.view(-1), dy.view(-1), dx.view(-1), x.numel(), current_stream())
    return dx


@forward.register_fake
@gradient.register_fake
def _(x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


forward.register_autograd(
    lambda ctx, dy: gradient(ctx.saved_tensors[0], dy),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)


def main() -> None:
    """Values and gradient against torch's in float64, torch's own check of operators, and one compiled graph."""
    device = "cuda" if rt.kind() == "rocm" else "cpu"
    print(f"33 x 100 float32 on {common.describe_device()}")
    x = common.random_f32((33, 100), 1).requires_grad_()
    y = forward(x)
    (dx,) = torch.autograd.grad(y.sin().sum(), x)

    wide = x.detach().double().requires_grad_()
    exact = wide.relu().square()
    (exact_dx,) = torch.autograd.grad(exact.sin().sum(), wide)
    common.check("values", y.detach(), exact.detach(), 1e-5)
    common.check("gradient", dx, exact_dx, 1e-4)

    results = torch.library.opcheck(forward, (torch.randn(5, 7, device=device, requires_grad=True),))
    common.expect("torch.library.opcheck:", set(results.values()) == {"SUCCESS"})

    # `fullgraph` refuses anything that torch cannot see through. "aot_eager" needs no compiler of torch's.
    compiled = torch.compile(lambda x: forward(x * 2) + 1, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        common.check("compiled", compiled(x), forward(x * 2) + 1)


if __name__ == "__main__":
    main()
