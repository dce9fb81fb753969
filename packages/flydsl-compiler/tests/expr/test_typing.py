"""What a type checker, and with it an editor, knows of the language."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import flydsl.expr as fx

PACKAGES = Path(__file__).parents[3]

PROGRAM = """
import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt

def helper(a: fx.Float32, b: fx.Int32, m: int) -> fx.Float32:
    total = fx.Float32(0.0)
    for i in range(4):
        total = total + a * 2.0
        total += a
    if b < 3 and b > 1:
        total = fx.where(b < 2, total, a)
    b = b * m + 1
    total = total + b                            # numbers of other classes may be mixed in
    return total / b

@flyc.kernel
def k(X: fx.Tensor, n: fx.Int32, m: fx.Constexpr[int]) -> None:
    t = fx.thread_idx.x
    reveal_type(t)                               # Int32
    reveal_type(fx.block_idx.x * 64 + t)         # Int32
    reveal_type(1 - t)                           # Int32
    reveal_type(t / 2)                           # Float32
    reveal_type(2.0 * t)                         # Float32
    reveal_type(fx.Float32(1.0))                 # Float32
    reveal_type(fx.Float16(1.0) * 2)             # Float32
    reveal_type(fx.Uint8(1) + 1)                 # Int32
    reveal_type(fx.Int64(1) + 1)                 # Int64
    reveal_type((t < n) & (t > 2))               # Boolean
    reveal_type(X[t])                            # Numeric
    reveal_type(X[t, 0] * 2.0)                   # Numeric
    reveal_type(X[t] < 2.0)                      # Boolean
    reveal_type(X[t].to(fx.Float16))             # Float16
    reveal_type(X[t].bitcast(fx.Int32))          # Int32
    reveal_type(fx.Int32.width)                  # int
    reveal_type(X[None, 0])                      # Tensor
    reveal_type(X.load() * 2.0)                  # Vector
    reveal_type(X.load()[0])                     # Numeric
    reveal_type(X.load().to(fx.Float16))         # Vector
    reveal_type(X.shape[0])                      # IntTuple
    reveal_type(fx.where(t < n, t, n))           # Int32
    reveal_type(fx.max(t, n))                    # Int32
    reveal_type(fx.exp(fx.Float32(1.0)))         # Float32
    reveal_type(fx.math.rsqrt(X.load()))         # Vector
    reveal_type(fx.isnan(X[t]))                  # Boolean
    reveal_type(fx.make_layout(4, 1))            # Layout
    reveal_type(fx.slice(X, (None, 0)))          # Tensor
    reveal_type(fx.zipped_divide(X, (1, 2)))     # Tensor
    reveal_type(fx.rocdl.make_buffer_tensor(X))  # Tensor
    fx.make_rmem_tensor(4, fx.Float32)[t % 4] = X[t]
    tile = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64]).peek()
    accumulator = fx.Float32(0.0)
    accumulator = accumulator + X[t]
    accumulator += X[t] * 2.0
    i = t
    while i < n:
        i += fx.grid_dim.x * 2
    tile[t] = helper(accumulator, i, m)
    X[t] = tile[63 - t]

@flyc.jit
def run(X: fx.Tensor, n: fx.Int32, stream: fx.Stream = fx.Stream(None)) -> None:
    reveal_type(k(X, n + 1, 4))                  # KernelLauncher
    k(X, n + 1, 4).launch(grid=1, block=64, stream=stream)

reveal_type(run)                                 # JitFunction
reveal_type(flyc.compile(run, 1, 2))             # CompiledFunction
reveal_type(flyc.compile(run, 1, 2).source_ir)   # str
run(1, 2)
with rt.checked("oob") as report:
    reveal_type(report)                          # CheckReport
with rt.profile(timing=True) as profile:
    reveal_type(profile[0])                      # LaunchProfile
"""


def test_types_that_are_known(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    sources = [str(PACKAGES / f"flydsl-{name}" / "src") for name in ("compiler", "layout", "runtime")]
    config = tmp_path / "mypy.ini"
    # The language is not checked here, only used.
    config.write_text(f"[mypy]\nmypy_path = {':'.join(sources)}\nnamespace_packages = true\n"
                      "ignore_missing_imports = true\nexplicit_package_bases = true\n"
                      "[mypy-flydsl.*]\nignore_errors = true\n")
    out, errors, _ = api.run(["--config-file", str(config), "--cache-dir", str(PACKAGES.parent / ".mypy_cache" / "use"),
                              str(program)])
    found = dict(re.findall(r"program\.py:(\d+): note: Revealed type is \"[\w.]*?(\w+)\"", out))
    lines = enumerate(PROGRAM.splitlines(), 1)
    wanted = {str(i): line.rpartition("# ")[2] for i, line in lines if "reveal_type" in line}
    assert found == wanted and "error" not in out, out + errors


def _annotated() -> list[tuple[str, str, str, str]]:
    """(class, operator, operand, result) of every row of the stub that names its result."""
    stub = (PACKAGES / "flydsl-compiler" / "src" / "flydsl" / "expr" / "_promotes.pyi").read_text()
    source = (PACKAGES / "flydsl-compiler" / "src" / "flydsl" / "expr" / "numeric.py").read_text()
    found = []
    for name, base, results in re.findall(r"^class (\w+)\((\w+Operators)(?:\[(.*?)\])?, ", source, re.M):
        given = dict(zip("IFQ" if base == "IntegerOperators" else "F", re.findall(r'"(\w+)"', results), strict=False))
        body = stub.split(f"class {base}")[1].split("\nclass ")[0]
        for operator, operands, result in re.findall(r"def __(\w+)__\(self, other: (.*?)\) -> (\w+)", body):
            for operand in operands.split(" | "):
                wanted = name if result == "Self" else given.get(result, result)
                if operand != "Any":
                    found.append((name, operator, operand, wanted))
    return found


@pytest.mark.parametrize("name", sorted({row[0] for row in _annotated()}))
def test_results_of_operators_are_those_of_the_stub(name: str) -> None:
    cls = getattr(fx, name, None) or getattr(fx.numeric, name)
    rows = [row[1:] for row in _annotated() if row[0] == name]
    assert rows
    for operator, operand, wanted in rows:
        other = {"Self": cls(1), "int": 1, "float": 1.0, "bool": True}[operand]
        result = getattr(cls(1), f"__{operator}__")(other)
        assert type(result).__name__ == wanted, f"{name}.__{operator}__({operand}) is a {type(result).__name__}"
