"""The table of Python forms in docs/language/python-forms.md: each supported form is run against NumPy, each
rejected one raises with the message of the table. The table and this file list the same forms."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PAGE = Path(__file__).parents[4] / "docs" / "language" / "python-forms.md"
if not PAGE.exists():
    pytest.skip("the documentation is not part of this tree", allow_module_level=True)


# Names in the expected expressions: x (float32 0..63), i (int 0..63), n (40), np, old (the untouched output).
SUPPORTED: dict[str, tuple[str, str]] = {
    "assign": ("v = X[t]\nY[t] = v", "x"),
    "assign-tuple": ("a, (b, *c) = X[t], (1.0, 2.0, 3.0)\nY[t] = a + b + c[1]", "x + 4"),
    "assign-augmented": ("v = X[t]\nv += 1.0\nv *= v\nY[t] = v", "(x + 1) ** 2"),
    "assign-annotated": ("v: fx.Float32 = X[t]\nY[t] = v", "x"),
    "store-subscript": ("Y[t] = X[t]\nY[t] += 1.0", "x + 1"),
    "expression-statement": ("fx.barrier()\nY[t] = X[t]", "x"),
    "pass": ("if t > 3:\n    pass\nY[t] = X[t]", "x"),
    "del-outside": ("v = X[t]\ndel v\nY[t] = X[t]", "x"),
    "import": ("import math\nY[t] = X[t] + math.floor(2.5)", "x + 2"),
    "def-nested": ("def f(v, k=2.0):\n    return v * k\nY[t] = f(X[t]) + f(X[t], k=3.0)", "x * 5"),
    "def-nested-branch": (
        "def f(v):\n    if v > 3.0:\n        v = v * 2.0\n    return v\nY[t] = f(X[t])",
        "np.where(x > 3, x * 2, x)",
    ),
    "def-nested-default": (
        "def f(v, k=2.0 if t > 3 else 3.0, *, s=t > 8 and n > 3):\n    return v * k if s else v\n"
        "g = lambda v, k=(0.0 if t < 2 else 1.0): v * k\nY[t] = g(f(X[t]))",
        "np.where(i > 8, x * 2, np.where(i < 2, 0, x))",
    ),
    "def-recursive": ("def f(v, k):\n    return v if k == 0 else f(v + 1.0, k - 1)\nY[t] = f(X[t], 4)", "x + 4"),
    "class-nested": (
        "@fx.struct\nclass P:\n    a: fx.Float32\n    b: fx.Float32\np = P(X[t], 2.0)\nY[t] = p.replace(b=3.0).a * p.b",
        "x * 2",
    ),
    "class-nested-conditions": (
        "class C:\n    a = 2.0\n    b = a if a > 3.0 else 3.0\n    c = 1.0 < a < b and b\n"
        "    def f(self, v, k=c or a):\n        return v * k if v > self.a else v\n"
        "    g = lambda v: v if v > 5.0 else 5.0\nY[t] = C().f(C.g(X[t]))",
        "np.maximum(x, 5) * 3",
    ),
    "lambda": ("f = lambda v: v if v > 3.0 else 0.0\nY[t] = f(X[t])", "np.where(x > 3, x, 0)"),
    "return-end": ("Y[t] = X[t]\nreturn", "x"),
    "return-guard": ("if t >= n:\n    return\nY[t] = X[t]", "np.where(i < n, x, old)"),
    "return-guard-nested": (
        "if t < n:\n    if t > 3:\n        return\n    Y[t] = 1.0\nelse:\n    Y[t] = 2.0",
        "np.where(i < n, np.where(i > 3, old, 1), 2)",
    ),
    "return-value-helper": (
        "def f(v):\n    if v > 3.0:\n        return v\n    elif v > 1.0:\n        return v * 2.0\n"
        "    return v * 4.0\nY[t] = f(X[t])",
        "np.where(x > 3, x, np.where(x > 1, x * 2, x * 4))",
    ),
    "if": ("v = X[t]\nif t > 3:\n    v = v * 2.0\nY[t] = v", "np.where(i > 3, x * 2, x)"),
    "if-else-new-name": ("if t > 3:\n    v = X[t]\nelse:\n    v = X[t] * 2.0\nY[t] = v", "np.where(i > 3, x, x * 2)"),
    "elif": (
        "v = X[t]\nif t < 4:\n    v = 0.0 * v\nelif t < 8:\n    v = v * 2.0\nelse:\n    v = v * 3.0\nY[t] = v",
        "np.where(i < 4, 0, np.where(i < 8, x * 2, x * 3))",
    ),
    "if-static": ("flag = True\nif flag:\n    v = X[t]\nelse:\n    v = X[t] * 2.0\nY[t] = v", "x"),
    "if-const-expr": ("if fx.const_expr(2 > 1):\n    v = X[t]\nelse:\n    v = undefined_name\nY[t] = v", "x"),
    "if-carries-containers": (
        "acc = [fx.Float32(0.0), {'k': X[t]}]\nif t > 3:\n    acc[0] = X[t]\n    acc[1]['k'] = "
        "fx.Float32(1.0)\nY[t] = acc[0] + acc[1]['k']",
        "np.where(i > 3, x + 1, x)",
    ),
    "for-range": ("s = fx.Float32(0.0)\nfor k in range(n):\n    s = s + X[k]\nY[t] = s", "np.full(64, x[:n].sum())"),
    "for-pipeline": (
        "lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64, 16]).peek()\n"
        "v = fx.make_rmem_tensor(1, fx.Float32)\n"
        "def load(tile, slot):\n    v[0] = X[tile]\n"
        "def store(slot, stage):\n    lds[t] = v[0]\n"
        "s = fx.Float32(0.0)\n"
        "for step in fx.pipeline_range(fx.Pipeline(n, 1, fx.Staged(load, store))):\n    s = s + lds[t]\nY[t] = s",
        "np.full(64, x[:n].sum())",
    ),
    "for-range-bounds": (
        "s = fx.Int32(0)\nfor k in range(t, n, 3):\n    s = s + k\nY[t] = fx.Float32(s)",
        "np.array([sum(range(a, n, 3)) for a in i])",
    ),
    "for-range-last-value": (
        "k = fx.Int32(-1)\nfor k in range(n):\n    Y[t] = X[t]\nY[t] = fx.Float32(k)",
        "np.full(64, n - 1)",
    ),
    "for-range-init": (
        "for k, (s, p) in range(0, n, 1, init=[fx.Float32(0.0), fx.Float32(1.0)]):\n"
        "    r = yield [s + X[fx.Int32(k)], p]\nY[t] = r[0] * r[1]",
        "np.full(64, x[:n].sum())",
    ),
    "for-range-unroll": (
        "s = fx.Float32(0.0)\nfor k in range(8, unroll=4):\n    s = s + X[k]\nY[t] = s",
        "np.full(64, 28)",
    ),
    "for-range-nested": (
        "s = fx.Int32(0)\nfor a in range(4):\n    for b in range(a + 1):\n        s = s + b\nY[t] = fx.Float32(s)",
        "np.full(64, 10)",
    ),
    "for-range-vector": (
        "v = fx.Vector.filled(4, 0.0, fx.Float32)\nfor k in range(n):\n    v = v + X[k]\nY[t] = v[3]",
        "np.full(64, x[:n].sum())",
    ),
    "for-container-methods": (
        "q = [fx.Float32(1.0), 2.0, 3.0]\nd = {'a': fx.Float32(0.0), 'b': 2.0}\nfor k in range(4):\n"
        "    q.append(q.pop(0) + 10.0)\n    d.update(a=d['a'] + d['b'])\nif t > 3:\n    q.reverse()\n"
        "Y[t] = q[0] * 100.0 + q[1] * 10.0 + d['a']",
        "np.where(i > 3, 2100 + 130, 1200 + 130) + 8",
    ),
    "for-constexpr": (
        "s = fx.Float32(0.0)\nw = [1.0, 2.0, 3.0]\nfor k in fx.range_constexpr(3):\n    s = s + w[k]\nY[t] = s",
        "np.full(64, 6)",
    ),
    "for-constexpr-break": (
        "s = fx.Float32(0.0)\nfor k in fx.range_constexpr(9):\n    if fx.const_expr(k == 3):\n"
        "        break\n    s = s + 1.0\nY[t] = s",
        "np.full(64, 3)",
    ),
    "for-constexpr-else": (
        "for k in fx.range_constexpr(2):\n    v = X[t]\nelse:\n    v = X[t] * 2.0\nY[t] = v",
        "x * 2",
    ),
    "for-python": ("s = X[t]\nfor w in (1.0, 2.0):\n    for k in range(n):\n        s = s + w\nY[t] = s", "x + 3 * n"),
    "while": (
        "k = t\nwhile k < n:\n    k = k + 7\nY[t] = fx.Float32(k)",
        "np.array([a if a >= n else a + -(-(n - a) // 7) * 7 for a in i])",
    ),
    "while-and": (
        "k = t\nwhile k < n and k != 20:\n    k = k + 1\nY[t] = fx.Float32(k)",
        "np.where(i <= 20, 20, np.maximum(i, n))",
    ),
    "while-const-expr": ("k = 0\nwhile fx.const_expr(k < 3):\n    k += 1\nY[t] = X[t] + k", "x + 3"),
    "with": ("with fx.fastmath('fast'):\n    if t > 3:\n        Y[t] = X[t] + 1.0", "np.where(i > 3, x + 1, old)"),
    "try": ("try:\n    if t > 3:\n        Y[t] = X[t]\nfinally:\n    pass", "np.where(i > 3, x, old)"),
    "match-static": (
        "mode = 'b'\nmatch mode:\n    case 'a':\n        Y[t] = X[t]\n    case _:\n        Y[t] = X[t] * 2.0",
        "x * 2",
    ),
    "assert-static": ("assert 2 > 1, 'never'\nY[t] = X[t]", "x"),
    "raise-static": ("if 1 > 2:\n    raise ValueError('never')\nY[t] = X[t]", "x"),
    "nonlocal": (
        "s = X[t]\ndef f():\n    nonlocal s\n    if t > 3:\n        s = s * 2.0\nf()\nY[t] = s",
        "np.where(i > 3, x * 2, x)",
    ),
    "bool-operators": (
        "if t > 3 and t < 9 or not t < 60:\n    Y[t] = X[t]",
        "np.where((i > 3) & (i < 9) | (i >= 60), x, old)",
    ),
    "compare-chain": ("if 3 < t <= 9 < n:\n    Y[t] = X[t]", "np.where((i > 3) & (i <= 9), x, old)"),
    "compare-is": ("a = None\nif a is None:\n    Y[t] = X[t]", "x"),
    "in-static": ("if 'b' in ('a', 'b'):\n    Y[t] = X[t]", "x"),
    "arithmetic": ("Y[t] = (X[t] * 2.0 - 1.0) / 4.0 + (-X[t])", "(x * 2 - 1) / 4 - x"),
    "integer-arithmetic": (
        "Y[t] = fx.Float32(((t - 10) // 3) * 100 + (t - 10) % 3 + (t << 2) + (t >> 1) + (t & 5 | 2 ^ t))",
        "((i - 10) // 3) * 100 + (i - 10) % 3 + (i << 2) + (i >> 1) + (i & 5 | 2 ^ i)",
    ),
    "conditional-expression": ("Y[t] = X[t] if t > 3 else 0.0", "np.where(i > 3, x, 0)"),
    "conditional-expression-tuple": (
        "a, b = (X[t], 1.0) if t > 3 else (X[t] * 2.0, 2.0)\nY[t] = a * b",
        "np.where(i > 3, x, x * 4)",
    ),
    "walrus": ("if (v := X[t]) > 3.0:\n    Y[t] = v", "np.where(x > 3, x, old)"),
    "walrus-operand": (
        "v = 5.0\nif t > 3 and (v := X[t] * 2.0) > 20.0 or t == 2 and (w := (v := X[t]) + 1.0) > 0.0:\n"
        "    v = v + 0.5\nY[t] = v",
        "np.where(i > 3, np.where(x > 10, x * 2 + 0.5, x * 2), np.where(i == 2, x + 0.5, 5))",
    ),
    "walrus-while": (
        "s = 0.0\nk = t\nwhile (k := k - 7) > 0 and (s := s + 1.0) < 4.0:\n    s = s + 0.5\nY[t] = s * 100.0 + k",
        "[walrus_while(j) for j in i]",
    ),
    "call-star": (
        "def f(a, *r, k):\n    return a + r[0] + k\nq = (1.0, 2.0)\nY[t] = f(X[t], *q, **{'k': 3.0})",
        "x + 4",
    ),
    "comprehension": (
        "v = [X[t] * float(k) for k in range(4) if k % 2]\nd = {k: e for k, e in enumerate(v)}\n"
        "Y[t] = d[0] + d[1] + sum([e for e in v], fx.Float32(0.0))",
        "x * 8",
    ),
    "generator-expression": ("Y[t] = sum((X[t] for _ in range(3)), fx.Float32(0.0))", "x * 3"),
    "f-string": ("name = f'{n}-{2 + 1}'\nassert name.endswith('-3')\nY[t] = X[t]", "x"),
    "log-of-tracing": (
        "if t > 3:\n    events.append('then')\n    tally.note()\n    Y[t] = X[t]\n"
        "assert events == ['then'] and tally.notes == 1 and tally == {'a': 1}",
        "np.where(i > 3, x, old)",
    ),
    "numpy-number": (
        "import numpy as np\nv = np.float32(2)\nfor k in range(np.int64(3)):\n    v = np.int32(2) * v\n"
        "Y[t] = np.float16(0.5) * X[t] + v",
        "0.5 * x + 16",
    ),
    "builtin-extrema": (
        "v = X[t] * fx.Float32x4([1.0, -3.0, 5.0, 2.0])\nY[t] = max(v) - min(v) + max(X[t], 3.0)",
        "8 * x + np.maximum(x, 3)",
    ),
    "attribute-of-namespace": (
        "from types import SimpleNamespace\ns = SimpleNamespace(a=X[t])\nif t > 3:\n    s.a = s.a * 2.0\nY[t] = s.a",
        "np.where(i > 3, x * 2, x)",
    ),
    "slice-python": ("w = [1.0, 2.0, 3.0]\nY[t] = X[t] + w[1:][0]", "x + 2"),
}

# The piece of the body that the caret points at, the exception, and the message of the table.
REJECTED: dict[str, tuple[str, str, type]] = {
    "return-in-loop": ("for k in range(n):\n    return", "return", SyntaxError),
    "return-in-unrolled-loop": (
        "for k in fx.range_constexpr(4):\n    if t > k:\n        return\n    Y[t] = X[t]",
        "t > k",
        RuntimeError,
    ),
    "return-value-kernel": ("return t", "return t", SyntaxError),
    "return-different-types": (
        "def f(v):\n    if v > 3.0:\n        return v\n    return 1\nY[t] = f(X[t])",
        "v > 3.0",
        TypeError,
    ),
    "break-in-loop": ("for k in range(n):\n    if k > 3:\n        break", "break", SyntaxError),
    "continue-in-loop": ("while t < n:\n    continue", "continue", SyntaxError),
    "break-unrolled-dynamic": ("for k in fx.range_constexpr(4):\n    if t > k:\n        break", "t > k", RuntimeError),
    "for-else": ("for k in range(n):\n    pass\nelse:\n    Y[t] = X[t]", "Y[t] = X[t]", SyntaxError),
    "for-target": ("for a, b in range(n):\n    pass", "a, b", TypeError),
    "for-step": ("for k in range(8, 0, -1):\n    pass", "range(8, 0, -1)", RuntimeError),
    "for-int64": ("for k in range(fx.Int64(n)):\n    pass", "range(fx.Int64(n))", TypeError),
    "for-index-list": ("w = [1.0, 2.0]\nfor k in range(2):\n    Y[t] = w[k]", "w[k]", RuntimeError),
    "for-constexpr-dynamic": ("for k in fx.range_constexpr(n):\n    pass", "fx.range_constexpr(n)", RuntimeError),
    "for-init-no-yield": ("for k, (s,) in range(0, n, 1, init=[X[t]]):\n    s = s + 1.0", "for", RuntimeError),
    "for-init-wrong-yield": ("for k, (s,) in range(0, n, 1, init=[X[t]]):\n    yield [t]", "yield [t]", TypeError),
    "while-true": ("while True:\n    Y[t] = X[t]", "while", SyntaxError),
    "while-else": ("while t < n:\n    pass\nelse:\n    Y[t] = X[t]", "Y[t] = X[t]", NotImplementedError),
    "name-one-branch": ("if t > 3:\n    v = X[t]\nY[t] = v", "Y[t] = v", NameError),
    "name-in-loop": ("for k in range(n):\n    v = X[k]\nY[t] = v", "Y[t] = v", NameError),
    "branch-type": ("v = 0\nif t > 3:\n    v = X[t]\nY[t] = X[t]", "t > 3", TypeError),
    "loop-type": ("v = 0\nfor k in range(n):\n    v = v + X[k]", "range(n)", TypeError),
    "list-length": ("v = [X[t]]\nif t > 3:\n    v = v + [X[t]]", "t > 3", TypeError),
    "none-carried": ("v = None\nif t > 3:\n    v = X[t]", "t > 3", TypeError),
    "object-carried": ("v = 'abc'\nif t > 3:\n    v = 'def'", "t > 3", TypeError),
    "condition-integer": ("if t & 1:\n    Y[t] = X[t]", "t & 1", TypeError),
    "const-expr-dynamic": ("if fx.const_expr(t > 3):\n    Y[t] = X[t]", "fx.const_expr(t > 3)", RuntimeError),
    "assert-dynamic": ("assert t < n", "t < n", RuntimeError),
    "raise-dynamic": ("if t > n:\n    raise ValueError('too long')", "raise ValueError('too long')", RuntimeError),
    "del-in-loop": ("v = X[t]\nfor k in range(n):\n    del v", "v", SyntaxError),
    "del-in-branch": ("v = X[t]\nif t > 3:\n    del v", "t > 3", RuntimeError),
    "global-assigned": ("global counter\nif t > 3:\n    counter = 1", "if", SyntaxError),
    "nonlocal-in-branch": (
        "s = X[t]\ndef f():\n    nonlocal s\n    s = s * 2.0\nif t > 3:\n    f()",
        "t > 3",
        RuntimeError,
    ),
    "captured-list": ("c = [0]\ndef f():\n    c[0] = 1\nif t > 3:\n    f()", "t > 3", RuntimeError),
    "list-grown": ("c = []\nif t > 3:\n    c.append(X[t])\nY[t] = len(c)", "t > 3", RuntimeError),
    "iterator-advanced": ("c = iter([1.0, 2.0])\nif t > 3:\n    Y[t] = next(c)\nY[t] = next(c)", "t > 3", RuntimeError),
    "generator-advanced": (
        "c = enumerate(X[k] for k in range(9))\nfor k in range(n):\n    Y[t] = next(c)[1]", "range(n)", RuntimeError
    ),
    "deque-changed": (
        "from collections import deque\nc = deque([X[t]])\nif t > 3:\n    c.append(1.0)\nY[t] = c[-1]",
        "t > 3",
        RuntimeError,
    ),
    "inner-list-grown": (
        "c = {'a': ([], 1)}\ndef f():\n    c['a'][0].append(X[t])\nif t > 3:\n    f()\nY[t] = float(len(c['a'][0]))",
        "t > 3",
        RuntimeError,
    ),
    "object-changed": (
        "class C:\n    n = 0\n    def count(self):\n        self.n += 1\nc = C()\nc.n = 1\nfor k in range(n):\n"
        "    c.count()\nY[t] = c.n",
        "range(n)",
        RuntimeError,
    ),
    "global-changed": (
        "def f():\n    counts['n'] += 1\nfor k in range(n):\n    f()\nY[t] = counts['n']", "range(n)", RuntimeError
    ),
    "value-carried-out": (
        "c = {}\ndef f(v):\n    c['v'] = v\nfor k in range(n):\n    f(X[k])\nY[t] = c['v']", "Y[t] = c['v']",
        RuntimeError,
    ),
    "match-dynamic": ("match n:\n    case 1:\n        Y[t] = X[t]", "1", RuntimeError),
    "in-dynamic": ("if t in (1, 2):\n    Y[t] = X[t]", "t in (1, 2)", RuntimeError),
    "comprehension-filter": ("v = [k for k in range(4) if t > k]", "t > k", RuntimeError),
    "conditional-types": ("Y[t] = 1 if t > 3 else X[t]", "1 if t > 3 else X[t]", TypeError),
    "untraced-helper": ("Y[t] = helper(X[t])", "v > 3.0", RuntimeError),
    "yield-elsewhere": ("yield X[t]", "yield X[t]", SyntaxError),
    "yield-from": ("yield from (1, 2)", "yield from (1, 2)", SyntaxError),
    "async-def": ("async def f():\n    pass", "async def", SyntaxError),
    "kernel-in-kernel": ("k2(X).launch(grid=1, block=64)", "k2(X)", RuntimeError),
    "slice-tensor": ("Y[t] = X[0:2]", "X[0:2]", TypeError),
}

PRELUDE = """
counter = 0
counts = {"n": 0}
events = []

class Tally(dict):
    notes = 0

    def note(self):
        self.notes += 1
        self["a"] = 1

tally = Tally()

def helper(v):
    if v > 3.0:
        return v
    return v * 2.0

@flyc.kernel
def k2(X: fx.Tensor):
    pass
"""


def table() -> dict[str, str]:
    """Form name to the last cell of its row (the message, for a rejected form)."""
    rows = {}
    for line in PAGE.read_text().splitlines():
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 3 and (name := re.fullmatch(r"`([a-z0-9-]+)`", cells[0])):
            rows[name.group(1)] = cells[2]
    return rows


def walrus_while(k: int) -> float:
    s = 0.0
    while (k := k - 7) > 0 and (s := s + 1.0) < 4.0:
        s = s + 0.5
    return s * 100.0 + k


def test_the_page_lists_these_forms() -> None:
    assert set(table()) == set(SUPPORTED) | set(REJECTED)


@pytest.mark.parametrize("form", list(SUPPORTED))
def test_supported(run: Any, form: str) -> None:
    body, expected = SUPPORTED[form]
    x, i = np.arange(64, dtype=np.float32), np.arange(64)
    y = np.full(64, -77, np.float32)
    out = run(body, x=x, y=y, prelude=PRELUDE)
    want = eval(expected, {"x": x, "i": i, "n": 40, "np": np, "old": np.full(64, -77),
                           "walrus_while": walrus_while})
    np.testing.assert_allclose(out, np.asarray(want, np.float64), rtol=1e-6)


@pytest.mark.parametrize("form", list(REJECTED))
def test_rejected(load: Any, kernel_text: Any, form: str) -> None:
    from flydsl.tracing.diagnostics import DSLCompileError

    body, place, kind = REJECTED[form]
    message = re.fullmatch(r"`(.+)`", table()[form].split(" — ")[0])
    assert message is not None, f"the table gives no message for {form}"
    source = kernel_text(body, PRELUDE)
    with pytest.raises(kind) as info:
        load(source).run(np.zeros(64, np.float32), np.zeros(64, np.float32), 40)
    error = info.value
    assert isinstance(error, DSLCompileError)
    text = str(error)
    assert message.group(1).replace("\\|", "|") in text
    # The innermost frame shows the place, in the user's file, with its caret; no internal file is shown.
    frame = error.diagnostics[0].chain[0]
    lines = Path(frame.filename).read_text(encoding="utf-8").splitlines()
    places = (place, "range(") if place == "for" else place  # Python 3.13 has a loop's start at its sequence
    assert lines[frame.line - 1][frame.col :].startswith(places), (frame, lines[frame.line - 1])
    assert "sample_" in frame.filename and "src/flydsl" not in text and "^" in text
    assert f"line {frame.line}" in text
