"""Random operations on random types, inferred and lowered: nothing may end the process.

Where mutation_fuzz.py tests the parser, this builds operands of random int tuples, layouts, tiles and tensors (static
and dynamic), applies random operations of the fly dialect with inferred result types, and runs the lowering passes.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import signal
import sys
import time
from pathlib import Path

import mutation_fuzz

SMALL = [0, 1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 12, 16, 24, 32, 64, -1, -2, -4, 1000, 65536, 2147483647, -2147483648]
ARITHMETIC = "add sub mul div mod".split()
PIPELINES = mutation_fuzz.PIPELINES[:2]


class Generator:
    """Text of types and attributes."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def leaf(self, extra: str = "") -> str:
        roll = self.rng.random()
        if roll < 0.12:
            return self.rng.choice(("?", "?", "?{div=4}", "?{i64}", "?{i64 div=8}", "?{div=0}", "?{div=-6}"))
        if roll < 0.14:
            return "*"
        if roll < 0.80 or "E" not in extra:
            return str(self.rng.choice(SMALL))
        return f"{self.rng.choice((0, 1, 1, 2, 3, 16))}{self.rng.choice(('E0', 'E1', 'E2', 'E1E0', 'E0E1'))}"

    def tuple(self, depth: int = 3, extra: str = "") -> str:
        if depth == 0 or self.rng.random() < 0.35:
            return self.leaf(extra)
        return "(" + ",".join(self.tuple(depth - 1, extra) for _ in range(self.rng.choice((1, 2, 2, 3, 4)))) + ")"

    def _like(self, text: str, extra: str) -> str:
        """A tuple congruent with ``text`` and other leaves."""
        return mutation_fuzz.re.sub(r"[^(),]+", lambda _: self.leaf(extra), text)

    def layout(self, depth: int = 2) -> str:
        shape = self.tuple(depth)
        if self.rng.random() < 0.05:
            return f"{shape}:{self.tuple(depth, 'E')}"
        if self.rng.random() < 0.4:  # compact, so that the algebra gets far
            running, sizes = 1, []
            for size in mutation_fuzz.re.findall(r"[^(),]+", shape):
                sizes.append(running)
                running = running * int(size) if size.lstrip("-").isdigit() and abs(running) < 10000 else running
            strides = iter(sizes)
            return f"{shape}:" + mutation_fuzz.re.sub(r"[^(),]+", lambda _: str(next(strides)), shape)
        return f"{shape}:{self._like(shape, self.rng.choice(('', '', 'E')))}"

    def swizzle(self) -> str:
        return "S<{},{},{}>".format(*(self.rng.choice((0, 1, 2, 3, 3, 4, 7)) for _ in range(3)))

    def composed(self) -> str:
        inner = self.rng.choice(
            (self.swizzle(), self.swizzle(), self.layout(1), "CS<2,0,[0],1,[1]>", "CS<1,0,[],0,[]>")
        )
        outer = self.layout()
        if self.rng.random() < 0.2:
            outer = f"[{self.swizzle()} o {self.tuple(1)} o {outer}]"
        return f"{inner} o {self.tuple(1)} o {outer}"

    def tile(self, depth: int = 2) -> str:
        def entry(depth: int) -> str:
            roll = self.rng.random()
            if roll < 0.5 or depth == 0:
                return str(self.rng.choice([v for v in SMALL if v > -3]))
            return "*" if roll < 0.6 else self.layout(1) if roll < 0.85 else nest(depth - 1)

        def nest(depth: int) -> str:
            return "[" + "|".join(entry(depth) for _ in range(self.rng.choice((1, 2, 2, 3)))) + "]"

        return nest(depth) if self.rng.random() < 0.85 else entry(depth)

    def element(self) -> str:
        return self.rng.choice(("f32", "f16", "i8", "i1", "f4E2M1FN", "f8E4M3FN", "i64", "f6E2M3FN"))

    def space(self) -> str:
        return self.rng.choice(("global", "shared", "register", "generic", "#fly_rocdl.buffer_desc"))

    def type(self, kind: str) -> str:
        if kind == "ptr":
            tail = self.rng.choice(("", ", align<16>", ", align<64>, S<3,3,3>", ", S<2,4,3>"))
            return f"!fly.ptr<{self.element()}, {self.space()}{tail}>"
        if kind == "memref":
            layout = self.layout() if self.rng.random() < 0.7 else self.composed()
            return f"!fly.memref<{self.element()}, {self.space()}, {layout}{self.rng.choice(('', ', align<16>'))}>"
        if kind == "coord_tensor":
            layout = self.layout() if self.rng.random() < 0.8 else self.composed()
            return f"!fly.coord_tensor<{self.tuple(1, 'E')}, {layout}>"
        if kind == "tiled_copy":
            bits = self.rng.choice((8, 16, 32, 64, 128))
            atom = self.rng.choice(
                (
                    f"!fly.universal_copy<{bits}>",
                    f"!fly_rocdl.cdna3.buffer_copy<{max(bits, 8)}>",
                    "!fly_rocdl.cdna4.lds_read_trans<trans = 16b, 64>",
                    "!fly_rocdl.gfx1250.lds_read_trans<trans = 16b, 128>",
                )
            )
            return (
                f"!fly.tiled_copy<!fly.copy_atom<{atom}, {self.rng.choice((8, 16, 16, 32, 3))}>, "
                f"!fly.layout<{self.layout()}>, !fly.tile<{self.tile(1)}>>"
            )
        if kind == "tiled_mma":
            atom = self.rng.choice(
                ("!fly.universal_fma<1x1x1, (f32, f32) -> f32>", "!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>")
            )
            tail = f", !fly.tile<{self.tile(1)}>" if self.rng.random() < 0.4 else ""
            return f"!fly.tiled_mma<!fly.mma_atom<{atom}>, !fly.layout<{self.layout()}>{tail}>"
        return f"!fly.{kind}<{getattr(self, {'int_tuple': 'tuple', 'composed_layout': 'composed'}.get(kind, kind))()}>"

    def operation(self) -> tuple[str, list[str], dict[str, str]]:
        """(name, operand kinds, attributes)."""
        pick = self.rng.choice
        layout = pick(("layout", "layout", "composed_layout"))
        like = pick(("layout", "layout", "composed_layout", "memref", "coord_tensor"))
        any_tuple = pick(("int_tuple", like))
        small = [-1, 0, 1, 1, 2, 3, 5]
        table: list[tuple[str, list[str], dict[str, str]]] = [
            *[(f"int_tuple_{name}", ["int_tuple", "int_tuple"], {}) for name in ARITHMETIC],
            *[
                (name, ["int_tuple", "int_tuple"], {})
                for name in (
                    "shape_div",
                    "ceil_div",
                    "int_tuple_product_like",
                    "make_layout",
                    "make_ordered_layout",
                    "elem_less",
                    "equal",
                )
            ],
            *[
                (name, ["int_tuple"], {})
                for name in (
                    "int_tuple_product",
                    "int_tuple_product_each",
                    "get_scalar",
                    "get_leaves",
                    "make_identity_layout",
                )
            ],
            ("make_layout_like", ["layout"], {}),
            ("make_fragment_layout_like", [pick(("layout", "memref"))], {}),
            ("make_fragment_like", [pick(("layout", "memref", "coord_tensor"))], {"dtype": "f32"}),
            ("make_composed_layout", [pick(("layout", "swizzle", "composed_layout")), "int_tuple", layout], {}),
            ("make_view", [pick(("ptr", "int_tuple")), layout], {}),
            ("get_shape", [like], {}),
            ("get_stride", [like], {}),
            (
                "get",
                [any_tuple],
                {"mode": f"array<i32: {', '.join(str(pick(small)) for _ in range(pick((1, 1, 2))))}>"},
            ),
            *[
                (name, [any_tuple], {"begin": f"{pick(small)} : i32", "end": f"{pick(small)} : i32"})
                for name in ("take", "group")
            ],
            ("select", [any_tuple], {"indices": f"array<i32: {pick(small)}, {pick(small)}>"}),
            *[
                (
                    name,
                    list(pick((("int_tuple", "int_tuple"), (layout, "layout")))),
                    pick(({}, {"n": f"{pick((1, 2, 4, 9))} : i32"})),
                )
                for name in ("append", "prepend")
            ],
            ("slice", [any_tuple, "int_tuple"], {}),
            ("dice", [pick(("int_tuple", "layout")), "int_tuple"], {}),
            ("size", [any_tuple], {}),
            *[(name, [like], {}) for name in ("coprofile", "coshape", "cosize", "coalesce")],
            ("coalesce", [like, "int_tuple"], {}),
            ("crd2idx", ["int_tuple", pick((layout, "swizzle"))], {}),
            *[(name, ["int_tuple", "layout"], {}) for name in ("idx2crd", "get_flat_coord", "get_1d_coord")],
            ("composition", [like, pick(("layout", "tile"))], {}),
            ("complement", [layout], {}),
            ("complement", [layout, "int_tuple"], {}),
            ("right_inverse", [layout], {}),
            ("left_inverse", [layout], {}),
            *[
                (f"{name}_divide", [like, pick(("layout", "tile"))], {})
                for name in ("logical", "zipped", "tiled", "flat")
            ],
            *[
                (f"{name}_product", [layout, "layout"], {})
                for name in ("logical", "zipped", "tiled", "flat", "blocked", "raked")
            ],
            (
                "recast_layout",
                [layout],
                {
                    "new_type_bits": f"{pick((0, 3, 4, 8, 16, 32, -8))} : i32",
                    "old_type_bits": f"{pick((0, 3, 4, 8, 16, 32))} : i32",
                },
            ),
            ("tile_to_shape", [layout, "int_tuple", "int_tuple"], {}),
            ("add_offset", [pick(("ptr", "int_tuple")), "int_tuple"], {}),
            ("apply_swizzle", ["ptr", "swizzle"], {}),
            ("decomposition", [pick(("memref", "coord_tensor"))], {}),
            ("memref.load", [pick(("memref", "coord_tensor")), "int_tuple"], {}),
            ("memref.load_vec", [pick(("memref", "coord_tensor"))], {}),
            *[
                (f"tiled_copy.partition_{side}", ["tiled_copy", pick(("memref", "coord_tensor")), "int_tuple"], {})
                for side in ("src", "dst")
            ],
            ("tiled_copy.retile", ["tiled_copy", "memref"], {}),
            (
                "tiled_mma.partition",
                ["tiled_mma", pick(("memref", "coord_tensor")), "int_tuple"],
                {"operand_id": f"#fly<mma_operand {pick('abcd')}>"},
            ),
            (
                "tiled_mma.partition_shape",
                ["tiled_mma", "int_tuple"],
                {"operand_id": f"#fly<mma_operand {pick('abcd')}>"},
            ),
            (
                "mma.make_fragment",
                ["tiled_mma", "memref"],
                {"operand_id": f"#fly<mma_operand {pick('abcd')}>", **pick(({}, {"stages": f"{pick(small)} : i32"}))},
            ),
            ("copy", ["tiled_copy", "memref", "memref"], {}),
            ("gemm", ["tiled_mma", "memref", "memref", "memref", "memref"], {}),
            ("print", [any_tuple], {"format": '"{} x"'}),
            ("get_iter", [pick(("memref", "coord_tensor"))], {}),
            ("ptrtoint", ["ptr"], {}),
            ("get_copy_atom", ["tiled_copy"], {}),
            ("get_mma_atom", ["tiled_mma"], {}),
        ]
        return pick(table)


def run_one(generator: Generator) -> str:
    """One operation; "r" if a type or the operation was rejected, "p" if only the passes failed, "l" otherwise."""
    from flydsl._mlir import ir
    from flydsl._mlir.passmanager import PassManager

    name, kinds, attributes = generator.operation()
    pipeline = generator.rng.choice(PIPELINES)
    texts = [generator.type(kind) for kind in kinds]
    try:
        types = [ir.Type.parse(text) for text in texts]
        attrs = {
            key: ir.Attribute.parse(value) if key != "dtype" else ir.TypeAttr.get(ir.Type.parse(value))
            for key, value in attributes.items()
        }
    except (ir.MLIRError, ValueError):
        return "r"
    module = ir.Module.create()
    with ir.InsertionPoint(module.body):
        function = ir.Operation.create(
            "func.func",
            regions=1,
            attributes={
                "sym_name": ir.StringAttr.get("f"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
            },
        )
        block = function.regions[0].blocks.append(*types)
    try:
        with ir.InsertionPoint(block):
            if name in ("copy", "gemm", "print"):
                if name == "gemm":
                    attrs["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([1, 1, 1, 1, 1, 0])
                made = ir.Operation.create(f"fly.{name}", operands=list(block.arguments), attributes=attrs)
            else:
                made = ir.Operation.create(
                    f"fly.{name}", operands=list(block.arguments), attributes=attrs, infer_type=True
                )
                if made.results:  # keep the value alive through dead code elimination
                    ir.Operation.create(
                        "fly.print", operands=list(made.results), attributes={"format": ir.StringAttr.get("")}
                    )
            ir.Operation.create("func.return")
        module.operation.verify()
    except (ir.MLIRError, ValueError):
        return "r"
    try:
        PassManager.parse(pipeline).run(module.operation)
        str(module)
    except ir.MLIRError:
        return "p"
    return "l"


def run(count: int, seed: int, batch: int = 500) -> tuple[dict[str, int], list[int]]:
    """Counts of outcomes, and the seeds of inputs that ended their process. Input n of a run has seed ``seed + n``."""
    import flydsl._mlir.dialects.fly  # noqa: F401  load the library once, before the children
    from flydsl._mlir import ir

    outcomes: dict[str, int] = {}
    failures: list[int] = []
    start = seed
    while start < seed + count and len(failures) < 40:
        end = min(start + batch, seed + count)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                devnull = os.open(os.devnull, os.O_WRONLY)
                os.dup2(devnull, 2)
                os.dup2(devnull, 1)
                for number in range(start, end):
                    with ir.Context(), ir.Location.unknown():
                        os.write(write, run_one(Generator(number)).encode())
                code = 0
            finally:
                os._exit(code)
        os.close(write)
        done = b""
        while True:
            if not select.select([read], [], [], mutation_fuzz.TIMEOUT)[0]:
                os.kill(pid, signal.SIGKILL)
                break
            data = os.read(read, 65536)
            if not data:
                break
            done += data
        os.close(read)
        _, status = os.waitpid(pid, 0)
        for outcome in done.decode():
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
        start += len(done)
        if status != 0:
            failures.append(start)
            start += 1
    return outcomes, failures


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, nargs="*", help="print the operation of these seeds and run it")
    options = parser.parse_args()
    if options.show is not None:
        from flydsl._mlir import ir

        for seed in options.show:
            generator = Generator(seed)
            name, kinds, attributes = generator.operation()
            generator.rng.choice(PIPELINES)
            print(seed, name, attributes, *[generator.type(kind) for kind in kinds], sep="\n  ", flush=True)
            with ir.Context(), ir.Location.unknown():
                print(run_one(Generator(seed)), flush=True)
        return 0
    begin = time.time()
    outcomes, failures = run(options.count, options.seed)
    print(
        f"{sum(outcomes.values())} inputs: {outcomes.get('r', 0)} rejected, {outcomes.get('p', 0)} not lowered, "
        f"{outcomes.get('l', 0)} lowered; {len(failures)} failures {failures}; {time.time() - begin:.0f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
