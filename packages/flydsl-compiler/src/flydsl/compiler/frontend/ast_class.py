"""What a function has of the class that it is written in: private names, and `super()` without arguments.

A function is compiled again outside its class, and bodies of branches and loops become functions of their own, so both
are written out.
"""

from __future__ import annotations

import ast
from types import FunctionType

__all__ = ["write_out_class"]

_IDENTIFIERS = ("id", "attr", "arg", "name", "asname", "rest")


def write_out_class(node: ast.FunctionDef, function: FunctionType) -> None:
    """Rename the private names of a method's tree in place, and give its `super()` calls their arguments."""
    name = node.name  # by which its code is found
    _PrivateNames(_class_name(function.__qualname__)).visit(node)
    node.name = name
    shadowed = "super" in function.__globals__ or "super" not in function.__code__.co_names
    if "__class__" in function.__code__.co_freevars and not shadowed:
        _SuperCalls().visit(node)


def _class_name(qualname: str) -> str:
    """The innermost class around a function: ``C`` of ``f.<locals>.C.run`` and of ``C.run.<locals>.inner``."""
    parts = qualname.split(".")
    classes = [part for part, after in zip(parts, parts[1:], strict=False) if "<locals>" not in (part, after)]
    return classes[-1] if classes else ""


class _PrivateNames(ast.NodeVisitor):
    """Python's renaming of identifiers that begin with two underscores.

    Keywords of calls and of class patterns are not renamed. The body of a class inside has that class's names.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner.lstrip("_")  # none for a class that has underscores only

    def _renamed(self, name: str) -> str:
        private = name.startswith("__") and not name.endswith("__") and "." not in name
        return f"_{self.owner}{name}" if private and self.owner else name

    def generic_visit(self, node: ast.AST) -> None:
        for field in _IDENTIFIERS:
            name = getattr(node, field, None)
            if isinstance(name, str) and not isinstance(node, ast.keyword):
                setattr(node, field, self._renamed(name))
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            node.names = [self._renamed(name) for name in node.names]
        super().generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        name, node.name = node.name, self._renamed(node.name)
        for outside in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(outside)
        inner = _PrivateNames(name)
        for statement in node.body:
            inner.visit(statement)


class _SuperCalls(ast.NodeVisitor):
    """``super()`` as ``super(__class__, first parameter)``."""

    def __init__(self) -> None:
        self.first = ""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer, parameters = self.first, [*node.args.posonlyargs, *node.args.args]
        self.first = parameters[0].arg if parameters else ""
        self.generic_visit(node)
        self.first = outer

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        return None  # its methods have a class of their own

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        if self.first and isinstance(node.func, ast.Name) and node.func.id == "super":
            if not node.args and not node.keywords:
                node.args = [ast.copy_location(ast.Name(name, ast.Load()), node) for name in ("__class__", self.first)]
