"""The catalogue of stable names, computed from the ``__all__`` lists without importing anything.

A name is stable when no segment starts with an underscore and it is listed in

* ``flydsl.compiler.__all__`` or ``flydsl.compiler.protocol.__all__``,
* the ``__all__`` of a module that ``flydsl.expr`` star-imports,
* ``flydsl.expr.rocdl.__all__`` and, from there, the ``__all__`` of each listed submodule,

plus two functions of ``flydsl.runtime.device``. Deprecated names are left out. ``python -m
flydsl.utils.stable_api`` prints the catalogue.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

__all__ = ["catalogue"]

# Kept for programs written against earlier releases; not part of the promise.
_DEPRECATED = {
    "expr.primitive.get", "expr.arith.index_cast", "expr.arith.constant_vector", "expr.rocdl.BufferCopyLDS64b",
}
_RUNTIME = ("runtime.device.get_rocm_arch", "runtime.device.is_rdna_arch")


def _source(folder: Path, name: str) -> ast.Module:
    for path in (folder / f"{name}.py", folder / name / "__init__.py"):
        if path.exists():
            return ast.parse(path.read_text(encoding="utf-8"))
    raise FileNotFoundError(f"module {name} in {folder}")


def _literal_all(tree: ast.Module, where: str) -> list[str]:
    """The names of a literal ``__all__`` list, extended with literal ``+=`` at most."""
    names: list[str] = []
    for node in tree.body:
        if not isinstance(node, (ast.Assign, ast.AugAssign)):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if not (isinstance(target, ast.Name) and target.id == "__all__"):
            continue
        value = node.value
        elements = value.elts if isinstance(value, ast.List) else [value]
        literals = [e.value for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)]
        if not isinstance(value, ast.List) or len(literals) != len(elements):
            raise ValueError(f"{where}.__all__ is not a literal list of strings")
        names += literals
    return names


def _star_imports(tree: ast.Module) -> list[str]:
    return [n.module for n in tree.body
            if isinstance(n, ast.ImportFrom) and n.level == 1 and n.module and n.names[0].name == "*"]


def catalogue(package: Path | None = None) -> list[str]:
    """Dotted paths under ``flydsl.``, sorted; namespaces included.

    Args:
        package: the folder of ``flydsl.compiler`` and ``flydsl.expr``; default: this installation.
    """
    root = Path(__file__).parents[1] if package is None else package
    found = {"compiler", "compiler.protocol", "expr", "expr.rocdl", *_RUNTIME}
    found |= {f"compiler.{n}" for n in _literal_all(_source(root, "compiler"), "flydsl.compiler")}
    found |= {f"compiler.protocol.{n}" for n in _literal_all(_source(root / "tracing", "protocol"), "protocol")}
    for module in _star_imports(_source(root, "expr")):
        found.add(f"expr.{module}")
        found |= {f"expr.{module}.{n}" for n in _literal_all(_source(root / "expr", module), f"flydsl.expr.{module}")}
    _add_backend(root / "expr" / "rocdl", "expr.rocdl", _source(root / "expr", "rocdl"), found)
    return sorted(n for n in found - _DEPRECATED if not any(s.startswith("_") for s in n.split(".")))


def _add_backend(folder: Path, prefix: str, tree: ast.Module, found: set[str]) -> None:
    for name in _literal_all(tree, f"flydsl.{prefix}"):
        found.add(f"{prefix}.{name}")
        if (folder / f"{name}.py").exists():
            found |= {f"{prefix}.{name}.{n}" for n in _literal_all(_source(folder, name), f"flydsl.{prefix}.{name}")}


def main() -> None:
    sys.stdout.write("\n".join(catalogue()) + "\n")


if __name__ == "__main__":
    main()
