"""The package's rooms: imports run one way, function-local ones too, and no files import each other in a circle."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "flydsl"
# Each package imports only those in front of it (flydsl.layout, flydsl.ir and flydsl.runtime lie below them all).
# `expr` and `control` are one language: values, and control flow over them.
ORDER = ["utils", "tracing", "marks", "expr control", "compiler", "autotune", "compiler.cli", "command"]
# A public name of earlier releases that stands in a lower package than what it names.
OLDER_NAMES = {"flydsl.utils.smem_allocator"}
# The rooms inside `expr`, in the same way: emission of plain values, numbers, vectors, operations on both, values of
# dialect types, the primitives on them, and what is made of primitives (all that is not named here).
LANGUAGE = [
    "_abi _emit _functions _integer _lanes _matrix_arch _number_protocol _numeric_class _operators "
    "_payload _promotes _rounding _target enum promotion utils.arith utils.classattr",
    "numeric",
    "_reductions",
    "_vector",
    "_vector_alias",
    "arith math utils.convert",
    "values",
    "primitive",
    "",
    "pipelines compat typing",
]

Graph = dict[str, set[str]]


def _modules(sources: Path = SOURCES) -> dict[str, Path]:
    def name(path: Path) -> str:
        parts = ("flydsl", *path.relative_to(sources).with_suffix("").parts)
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    return {name(path): path for path in sources.rglob("*.py")}


def _typing_only(tree: ast.AST) -> set[int]:
    guarded = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]
    return {id(inner) for block in guarded for statement in block.body for inner in ast.walk(statement)}


def _named(node: ast.AST, module: str, is_package: bool) -> list[str]:
    """The modules that a node imports: statements, wherever they stand, and `LazyModule("...")`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = module.split(".") if is_package else module.split(".")[:-1]
            base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
        return [f"{base}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "LazyModule" and node.args:
        return [node.args[0].value] if isinstance(node.args[0], ast.Constant) else []
    return []


def _graph(modules: dict[str, Path] | None = None) -> Graph:
    graph: Graph = {}
    modules = modules or _modules()
    for module, path in modules.items():
        tree = ast.parse(path.read_text())
        skipped, found = _typing_only(tree), set()
        for node in ast.walk(tree):
            if id(node) in skipped:
                continue
            for target in _named(node, module, path.name == "__init__.py"):
                while target not in modules and "." in target:
                    target = target.rpartition(".")[0]
                if target in modules and target != module:
                    found.add(target)
        graph[module] = found
    return graph


def _level(module: str, order: list[str], inside: str = "flydsl") -> int:
    """The number of the room of a module: that of the longest name it lies below."""
    rest = module.removeprefix(f"{inside}.")
    found = [(len(room), n) for n, rooms in enumerate(order) for room in rooms.split() or [""]
             if not room or f"{rest}.".startswith(f"{room}.")]
    return max(found)[1]


def _circles(graph: Graph) -> list[set[str]]:
    def reached(start: str) -> set[str]:
        seen, todo = set(), [start]
        while todo:
            for target in graph.get(todo.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    todo.append(target)
        return seen

    reach = {module: reached(module) for module in graph}
    circles: list[set[str]] = []
    for module, targets in reach.items():
        circle = {other for other in targets if module in reach[other]}
        if len(circle) > 1 and circle not in circles:
            circles.append(circle)
    return circles


def _upward(graph: Graph, order: list[str], inside: str = "flydsl") -> list[str]:
    return sorted(f"{module} imports {target}" for module, targets in graph.items() if module not in OLDER_NAMES
                  for target in targets if _level(target, order, inside) > _level(module, order, inside))


def test_imports_run_one_way() -> None:
    assert not _upward(_graph(), ORDER)


def test_imports_inside_the_language_run_one_way() -> None:
    language = {module: targets for module, targets in _graph().items() if module.startswith("flydsl.expr.")}
    inside = {module: targets & language.keys() for module, targets in language.items()}
    assert not _upward(inside, LANGUAGE, "flydsl.expr")


def test_every_package_has_its_place() -> None:
    packages = {path.name for path in SOURCES.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert packages <= set(" ".join(ORDER).split()), "say in ORDER what the new package may import"


def test_no_files_import_each_other() -> None:
    """Of this package and, in a checkout of all, of the others."""
    every: dict[str, Path] = {}
    for sources in {SOURCES, *SOURCES.parents[2].glob("flydsl-*/src/flydsl")}:
        every |= _modules(sources)
    graph = _graph(every)
    assert graph["flydsl.expr"]
    assert not [sorted(circle) for circle in _circles(graph)]


def test_packages_meet_at_public_names() -> None:
    """No module or name with an underscore is imported from another package (the bindings `flydsl._mlir` excepted)."""
    owners = {f"flydsl.{part}": "compiler" for room in ORDER for part in room.split()}
    owners |= {f"flydsl.{part}": part for part in ("layout", "ir", "runtime", "kernels")}

    def owner(module: str) -> str:
        return next((name for package, name in owners.items() if f"{module}.".startswith(f"{package}.")), "")

    private: list[str] = []
    for sources in {SOURCES, *SOURCES.parents[2].glob("flydsl-*/src/flydsl")}:
        for module, path in _modules(sources).items():
            for node in ast.walk(ast.parse(path.read_text())):
                private += [f"{module} imports {target}" for target in _named(node, module, path.name == "__init__.py")
                            if owner(target) not in ("", owner(module))
                            and any(part.startswith("_") and part != "__version__" for part in target.split("."))]
    assert not private, "\n".join(sorted(private))


def test_the_graph_has_local_and_lazy_imports() -> None:
    """What the tests above look at: an import inside of a function and a `LazyModule` are arrows as any other."""
    tree = ast.parse("def f():\n    from .a import b\nx = LazyModule('flydsl.c')\nif TYPE_CHECKING:\n    import d\n")
    skipped = _typing_only(tree)
    found = [name for node in ast.walk(tree) if id(node) not in skipped for name in _named(node, "flydsl.m", False)]
    assert sorted(found) == ["flydsl.a.b", "flydsl.c"]
    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]
