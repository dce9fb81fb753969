"""What a block of statements writes, calls upon, and where it leaves."""

from __future__ import annotations

import ast
from collections.abc import Iterable

#: Methods of Python containers that change them.
MUTATORS = frozenset({
    "append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update",
})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def root_name(node: ast.AST) -> str | None:
    """``a`` of ``a.b[c].d``."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def is_dotted_name(node: ast.AST) -> bool:
    """Whether an expression is a name or attributes of one: it may be evaluated twice."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def call_name(node: ast.AST) -> str | None:
    """Last component of the called name: ``range_constexpr`` of ``fx.range_constexpr(4)``."""
    if not isinstance(node, ast.Call):
        return None
    func = node.func
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else None


def is_const_expr(node: ast.AST) -> bool:
    """Whether a whole condition is ``const_expr(...)``."""
    return call_name(node) == "const_expr"


class _Writes(ast.NodeVisitor):
    def __init__(self) -> None:
        self.bound: list[str] = []  # a name gets a new value
        self.stored: list[str] = []  # an object reached through the name is written
        self.invoked: list[str] = []
        self.mutated: list[str] = []  # a method that changes a container is called
        self.deleted: list[ast.AST] = []
        self.foreign: set[str] = set()  # global names; nonlocal ones are handed on like locals

    def _add(self, names: list[str], name: str | None) -> None:
        if name is not None and name not in names and name != "_":
            names.append(name)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self._add(self.bound, node.id)
        elif isinstance(node.ctx, ast.Del):
            self.deleted.append(node)

    def _visit_access(self, node: ast.Attribute | ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Store):
            self._add(self.stored, root_name(node))
        self.generic_visit(node)

    visit_Attribute = visit_Subscript = _visit_access  # noqa: N815

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute):
            name = root_name(node.func)
            if name != "self":
                self._add(self.invoked, name)
                if node.func.attr in MUTATORS:
                    self._add(self.mutated, name)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._add(self.bound, node.name)

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef  # type: ignore[assignment] # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        return None

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self._add(self.bound, alias.asname or alias.name.split(".")[0])

    visit_ImportFrom = visit_Import  # noqa: N815

    def visit_Global(self, node: ast.Global) -> None:
        self.foreign.update(node.names)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._add(self.bound, node.name)
        self.generic_visit(node)

    def _visit_comprehension(self, node: ast.AST) -> None:
        # Targets of a comprehension are its own; method calls and walrus targets inside are not.
        targets = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}  # type: ignore[attr-defined]
        before = len(self.bound)
        self.generic_visit(node)
        self.bound[before:] = [n for n in self.bound[before:] if n not in targets]

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension  # noqa: N815


class BlockWrites:
    """Names that a construct may change.

    Attributes:
        names: all of them: bound or stored names in order of appearance, then names only called upon.
        invoked: the names that are only called upon.
        mutated: those of ``invoked`` of which a method is called that changes a container.
        deleted: ``del name`` nodes.
    """

    def __init__(self, bodies: Iterable[ast.AST], local_names: set[str]) -> None:
        visitor = _Writes()
        for node in bodies:
            visitor.visit(node)
        bound = [n for n in visitor.bound if n not in visitor.foreign]
        # Storing through a captured name is fine in place; only names of this function are handed on.
        stored = [n for n in visitor.stored if n not in bound and n in local_names]
        called = [n for n in visitor.invoked if n not in bound and n not in stored and n in local_names]
        self.bound = tuple(bound)
        self.invoked = tuple(called)
        self.mutated = tuple(n for n in called if n in visitor.mutated)
        self.names = tuple(bound + stored + called)
        self.deleted = visitor.deleted


def function_locals(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """Parameters and names bound in a function's own body."""
    args = node.args
    names = {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
    visitor = _Writes()
    for statement in node.body if isinstance(node.body, list) else [node.body]:
        visitor.visit(statement)
    return (names | set(visitor.bound)) - visitor.foreign - {"_"}


def escapes(statements: Iterable[ast.stmt]) -> list[ast.stmt]:
    """``return``, ``break`` and ``continue`` statements that leave the given block."""
    found: list[ast.stmt] = []

    def visit(node: ast.AST, in_loop: bool) -> None:
        if isinstance(node, ast.Return) or isinstance(node, (ast.Break, ast.Continue)) and not in_loop:
            found.append(node)
        elif isinstance(node, (ast.For, ast.While, ast.AsyncFor)):
            for child in node.body:
                visit(child, True)
            for child in node.orelse:
                visit(child, in_loop)
        elif not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            for inner in ast.iter_child_nodes(node):
                visit(inner, in_loop)

    for statement in statements:
        visit(statement, False)
    return found


def always_returns(statements: list[ast.stmt]) -> bool:
    """Whether a block ends in `return` or `raise` on every path."""
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, ast.If):
        return always_returns(last.body) and always_returns(last.orelse)
    return isinstance(last, (ast.Return, ast.Raise))


def assigned_in_expression(node: ast.AST) -> list[str]:
    """Names of the function that an expression assigns with ``:=``, in order."""
    if isinstance(node, ast.Lambda):
        return []  # its names are its own
    names = [node.target.id] if isinstance(node, ast.NamedExpr) else []
    for child in ast.iter_child_nodes(node):
        names += assigned_in_expression(child)
    return list(dict.fromkeys(names))


def binds_in_expression(node: ast.AST) -> bool:
    """Whether an expression must be evaluated in the function's own scope (walrus, yield, await)."""
    return any(isinstance(n, (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)) for n in ast.walk(node))
