"""Random small kernels: arithmetic with promotion, vectors, layouts, and every form of control flow."""

from __future__ import annotations

import random

THREADS = 64
LAYOUTS = ["(4,16):(1,4)", "(4,16):(16,1)", "(8,(2,4)):(4,(32,1))", "((2,2),16):((32,1),2)", "64:1", "(16,4):(4,1)"]


class Program:
    """One random kernel body; names are typed so that assignments keep their types."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.vars: dict[str, list[str]] = {"i": ["t", "n"], "u": [], "f": [], "v": [], "w": []}
        self.frozen: set[str] = {"t", "n"}
        self.views: list[tuple[str, str]] = []
        self.count = 0
        self.budget = self.r.randint(8, 22)

    # ---- text

    def emit(self, depth: int, text: str) -> None:
        self.lines.append("    " * (depth + 1) + text)

    def fresh(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    # ---- expressions

    def pick(self, kind: str) -> str:
        return self.r.choice(self.vars[kind])

    def expr(self, kind: str, depth: int = 0) -> str:
        return getattr(self, f"_{kind}")(depth)

    def _leaf(self, kind: str) -> str:
        if self.vars[kind] and self.r.random() < 0.75:
            return self.pick(kind)
        if kind == "i":
            return f"fx.Int32({self.r.randint(-40, 40)})"
        if kind == "u":
            return f"fx.Uint32({self.r.randint(0, 90)})"
        return f"fx.Float32({self.r.randint(-16, 16) / 4})"

    def _i(self, d: int) -> str:
        if d > 2 or self.r.random() < 0.25:
            return self._leaf("i")
        a = lambda: self.expr("i", d + 1)  # noqa: E731
        forms = [
            lambda: f"({a()} {self.r.choice('+-*&|^')} {a()})",
            lambda: f"({a()} {self.r.choice('+-*&|^')} {self.r.randint(-9, 99)})",
            lambda: f"({self.r.randint(-9, 99)} {self.r.choice('+-*')} {self.pick('i')})",
            lambda: f"({a()} << {self.r.randint(0, 31)})",
            lambda: f"({a()} >> {self.r.randint(0, 31)})",
            lambda: f"(({a()} & 1023) % {self.r.randint(1, 50)})",
            lambda: f"({a()} // {self.r.choice([1, 2, 3, 5, 7, 16, 100])})",
            lambda: f"(({a()} & 4095) // (({a()} & 15) + 1))",
            lambda: f"(-{self.pick('i')})",
            lambda: f"(~{self.pick('i')})",
            lambda: f"abs({a()} >> 1)",
            lambda: f"fx.{self.r.choice(['max', 'min'])}({a()}, {a()})",
            lambda: f"{self.cond(d + 1)}.select({a()}, {a()})",
            lambda: f"({a()} if {self.cond(d + 1)} else {a()})",
            lambda: f"fx.Int32(fx.Float32({a()} & 1023) * fx.Float32({self.r.randint(1, 9) / 4}))",
            lambda: f"fx.Int32({self.expr('u', d + 1)})",
            lambda: self.lane("w", d),
            lambda: f"{self.view(d)}" if self.views else a(),
        ]
        return self.r.choice(forms)()

    def _u(self, d: int) -> str:
        if d > 2 or self.r.random() < 0.3:
            return self._leaf("u")
        return self.r.choice([
            lambda: f"({self.expr('u', d + 1)} {self.r.choice('+-*&|^')} {self.expr('u', d + 1)})",
            lambda: f"({self.expr('u', d + 1)} {self.r.choice('+-*')} {self.expr('i', d + 1)})",
            lambda: f"({self.expr('u', d + 1)} >> {self.r.randint(0, 31)})",
            lambda: f"({self.expr('u', d + 1)} // {self.r.randint(1, 30)})",
            lambda: f"fx.Uint32({self.expr('i', d + 1)})",
            lambda: f"fx.max({self.expr('u', d + 1)}, {self.expr('u', d + 1)})",
        ])()

    def _f(self, d: int) -> str:
        # Divisions start from a variable: a quotient of literals is folded in double precision, as documented.
        if d > 2 or self.r.random() < 0.25:
            return self._leaf("f")
        a = lambda: self.expr("f", d + 1)  # noqa: E731
        return self.r.choice([
            lambda: f"({a()} {self.r.choice('+-*')} {a()})",
            lambda: f"({a()} {self.r.choice('+-*')} {self.r.randint(-8, 8) / 2})",
            lambda: f"({a()} {self.r.choice('+-')} ({self.expr('i', d + 1)} & 255))",
            lambda: f"({self.pick('f')} / {self.r.choice([2.0, 3.0, 7.0, -5.0])})",
            lambda: f"(({self.pick('i')} & 255) / {self.r.randint(1, 9)})",
            lambda: f"abs({a()})",
            lambda: f"(-{a()})",
                lambda: f"fx.floor({a()})",
            lambda: f"fx.{self.r.choice(['max', 'min'])}({a()}, {a()})",
            lambda: f"{self.cond(d + 1)}.select({a()}, {a()})",
            lambda: f"({a()} if {self.cond(d + 1)} else {a()})",
            lambda: self.lane("v", d),
            lambda: f"X[{self.index(d)}]",
            lambda: f"{self.pick('v')}.reduce('{self.r.choice(['max', 'min'])}')" if self.vars["v"] else a(),
        ])()

    def _v(self, d: int) -> str:
        return self._any_vector("v", "Float32x4", "f", d)

    def _w(self, d: int) -> str:
        return self._any_vector("w", "Int32x4", "i", d)

    def _any_vector(self, kind: str, cls: str, element: str, d: int) -> str:
        if d > 1 or not self.vars[kind] or self.r.random() < 0.3:
            if self.r.random() < 0.5:
                return f"fx.{cls}({self.expr(element, d + 2)})"
            return f"fx.{cls}([{', '.join(self.expr(element, d + 2) for _ in range(4))}])"
        a = lambda: self.expr(kind, d + 1)  # noqa: E731
        return self.r.choice([
            lambda: f"({a()} {self.r.choice('+-*')} {a()})",
            lambda: f"({a()} {self.r.choice('+*')} {self.expr(element, d + 2)})",
            lambda: f"{self.pick(kind)}.shuffle({self.pick(kind)}, {[self.r.randint(0, 7) for _ in range(4)]})",
            lambda: f"({self.pick(kind)} if {self.cond(d + 1)} else {self.pick(kind)})",
        ])()

    def lane(self, kind: str, d: int) -> str:
        if not self.vars[kind]:
            return self._leaf("f" if kind == "v" else "i")
        where = str(self.r.randint(0, 3)) if self.r.random() < 0.6 else f"({self.expr('i', d + 2)} & 3)"
        return f"{self.pick(kind)}[{where}]"

    def index(self, d: int) -> str:
        return f"({self.expr('i', d + 1)} & {THREADS - 1})"

    def view(self, d: int) -> str:
        name, shape = self.r.choice(self.views)
        return f"{name}[{self.index(d)}]" if shape else self._leaf("i")

    def cond(self, d: int = 0) -> str:
        kind = self.r.choice("iiifu")
        a, b = self.expr(kind, d + 1), self.expr(kind, d + 1)
        return f"({a} {self.r.choice(['<', '<=', '>', '>=', '==', '!='])} {b})"

    def condition(self) -> str:
        roll = self.r.random()
        if roll < 0.55:
            return self.cond()
        if roll < 0.7:
            return f"{self.cond(1)} {self.r.choice(['and', 'or'])} {self.cond(1)}"
        if roll < 0.8:
            return f"not {self.cond(1)}"
        low, high = sorted(self.r.sample(range(64), 2))
        return f"{low} {self.r.choice(['<', '<='])} {self.pick('i')} {self.r.choice(['<', '<='])} {high}"

    # ---- statements

    def assignable(self) -> list[tuple[str, str]]:
        return [(k, v) for k, names in self.vars.items() for v in names if v not in self.frozen]

    def declare(self, depth: int) -> None:
        kind = self.r.choice("iiuffvw")
        name = self.fresh(kind)
        self.emit(depth, f"{name} = {self.expr(kind)}")
        self.vars[kind].append(name)

    def assign(self, depth: int) -> None:
        choices = self.assignable()
        if not choices:
            self.declare(depth)
            return
        kind, name = self.r.choice(choices)
        if kind in "iuf" and self.r.random() < 0.3:
            self.emit(depth, f"{name} {self.r.choice(['+=', '-=', '*='])} {self.expr(kind, 1)}")
        else:
            self.emit(depth, f"{name} = {self.expr(kind)}")

    def block(self, depth: int, size: int) -> None:
        saved = {k: list(v) for k, v in self.vars.items()}
        for _ in range(size):
            self.statement(depth)
        self.vars = saved  # names bound inside stay inside

    def statement(self, depth: int) -> None:
        self.budget -= 1
        roll = self.r.random()
        if depth > 2 or self.budget < 0 or roll < 0.4:
            (self.declare if depth == 0 and self.r.random() < 0.4 else self.assign)(depth)
        elif roll < 0.58:
            self.emit(depth, f"if {self.condition()}:")
            self.block(depth + 1, self.r.randint(1, 3))
            while self.r.random() < 0.3:
                self.emit(depth, f"elif {self.condition()}:")
                self.block(depth + 1, self.r.randint(1, 2))
            if self.r.random() < 0.6:
                self.emit(depth, "else:")
                self.block(depth + 1, self.r.randint(1, 2))
        elif roll < 0.72:
            self.loop(depth)
        elif roll < 0.78:
            self.while_loop(depth)
        elif roll < 0.84:
            self.emit(depth, f"for c{self.count} in fx.range_constexpr({self.r.randint(1, 3)}):")
            self.block(depth + 1, self.r.randint(1, 2))
        elif roll < 0.9:
            self.emit(depth, f"Y[t] = {self.expr('f')}")
        elif roll < 0.95:
            self.container(depth)
        else:
            self.helper(depth)

    def loop(self, depth: int) -> None:
        name = self.fresh("k")
        start = self.r.choice(["", f"{self.r.randint(0, 3)}, ", f"({self.expr('i', 1)} & 3), "])
        stop = self.r.choice([str(self.r.randint(0, 6)), f"({self.expr('i', 1)} & 7)"])
        step = f", {self.r.randint(1, 3)}" if start and self.r.random() < 0.4 else ""
        self.emit(depth, f"for {name} in range({start}{stop}{step}):")
        typed = self.fresh("j")
        self.emit(depth + 1, f"{typed} = fx.Int32({name})")
        self.frozen.add(typed)
        self.vars["i"].append(typed)
        self.block(depth + 1, self.r.randint(1, 3))
        self.vars["i"].remove(typed)

    def while_loop(self, depth: int) -> None:
        name = self.fresh("q")
        self.emit(depth, f"{name} = {self.expr('i', 1)} & 15")
        self.frozen.add(name)
        self.vars["i"].append(name)
        self.emit(depth, f"while {name} > {self.r.randint(0, 3)}{self.r.choice(['', ' and ' + self.cond(1)])}:")
        self.block(depth + 1, self.r.randint(1, 2))
        self.emit(depth + 1, f"{name} = {name} - {self.r.randint(1, 4)}")
        self.vars["i"].remove(name) if depth else None

    def container(self, depth: int) -> None:
        name = self.fresh("box")
        self.emit(depth, f"{name} = [{self.expr('i', 1)}, {{'k': {self.expr('f', 1)}}}]")
        self.emit(depth, f"if {self.condition()}:")
        self.emit(depth + 1, f"{name}[0] = {self.expr('i', 1)}")
        self.emit(depth + 1, f"{name}[1]['k'] = {self.expr('f', 1)}")
        targets = [v for k, v in self.assignable() if k == "f"]
        if targets:
            self.emit(depth, f"{self.r.choice(targets)} = {name}[1]['k'] + ({name}[0] & 63)")

    def helper(self, depth: int) -> None:
        name = self.fresh("h")
        self.emit(depth, f"def {name}(a, b):")
        self.emit(depth + 1, f"if a {self.r.choice('<>')} {self.r.randint(-9, 9)}:")
        self.emit(depth + 2, f"return b {self.r.choice('+-*')} a")
        if self.r.random() < 0.5:
            self.emit(depth + 1, f"elif b == {self.r.randint(0, 9)}:")
            self.emit(depth + 2, "return a")
        self.emit(depth + 1, f"return a {self.r.choice('&|^')} b")
        targets = [v for k, v in self.assignable() if k == "i"]
        if targets:
            self.emit(depth, f"{self.r.choice(targets)} = {name}({self.expr('i', 1)}, {self.expr('i', 1)})")

    def layout_text(self) -> str:
        """A layout of 64 elements inside 64, from algebra on random layouts."""
        base = self.r.choice(LAYOUTS)
        shape, stride = base.split(":")
        text = f"fx.make_layout({shape}, {stride})"
        roll = self.r.random()
        if roll < 0.25:
            return f"fx.composition({text}, fx.make_layout((16, 4), ({self.r.choice(['1, 16', '4, 1'])})))"
        if roll < 0.45:
            return f"fx.logical_divide({text}, fx.make_layout({self.r.choice([2, 4])}, 1))" if base == "64:1" else text
        if roll < 0.6:
            strides = self.r.choice(["1, 2", "4, 1"])
            return f"fx.raked_product(fx.make_layout((4, 2), (2, 1)), fx.make_layout((2, 4), ({strides})))"
        if roll < 0.75:
            return f"fx.right_inverse({text})"
        if roll < 0.85:
            return f"fx.coalesce({text})"
        return text

    def source(self, name: str) -> str:
        """The kernel's text."""
        self.emit(0, "t = fx.thread_idx.x")
        for _ in range(self.r.randint(0, 2)):
            view = self.fresh("view")
            self.emit(0, f"{view} = fx.make_view(fx.get_iter(Z), {self.layout_text()})")
            self.views.append((view, "1d"))
        for kind in "iiffu":
            variable = self.fresh(kind)
            start = {"i": f"Z[{self.index(1)}]", "f": f"X[{self.index(1)}]", "u": "fx.Uint32(Z[t])"}[kind]
            self.emit(0, f"{variable} = {start}")
            self.vars[kind].append(variable)
        if self.r.random() < 0.25:
            self.emit(0, f"Y[t] = {self.expr('f')}")
            self.emit(0, f"if {self.condition()}:")
            self.emit(1, "return")
        while self.budget > 0:
            self.statement(0)
        for kind in "iufvw":
            for variable in self.vars[kind]:
                if variable.startswith(kind):
                    final = {"i": "fx.Float32({0} & 4095)", "u": "fx.Float32(fx.Int32({0} & 4095))", "f": "{0}",
                             "v": "({0}[0] + {0}[3])", "w": "fx.Float32(({0}[1] ^ {0}[2]) & 4095)"}[kind]
                    self.emit(0, f"Y[t] = Y[t] * fx.Float32(0.5) + {final.format(variable)}")
        return f"def {name}(X, Y, Z, n):\n" + "\n".join(self.lines) + "\n"


def program(seed: int, name: str = "k") -> str:
    """Text of the kernel with this seed: ``X`` float32, ``Y`` float32 output, ``Z`` int32, ``n`` an int32."""
    return Program(seed).source(name)
