"""Rewriting of a traced function: control flow over values that are known only on the device.

The rewritten function is executed while tracing. Bodies of `if`, `for` and `while` become functions of the
names they write, and the dispatchers of `control_flow` run them inside the regions of `scf` ops, or as
plain Python when the operands are static. Source positions are kept, so Python reports the user's lines.
"""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from types import CellType, CodeType, FunctionType
from typing import Any

from flydsl.control import flow, loops, pipelines, state
from flydsl.runtime.forking import fork_safe_lock
from flydsl.tracing.diagnostics import rewritten_spans
from flydsl.utils import env, log

from .ast_class import write_out_class
from .ast_scope import BlockWrites
from .ast_transformer import Transformer, plain_bindings

__all__ = [
    "ASTRewriter", "CanonicalizeWhile", "FallbackLocations", "InsertEmptyYieldForSCFFor", "ReplaceIfWithDispatch",
    "ReplaceYieldWithSCFYield", "RewriteBoolOps",
]


#: Python 3.11 counts the depth of what it makes of a syntax tree for all threads together, and calls another thread's a
#: SystemError; it changes threads where a garbage collection calls Python.
_parsing = fork_safe_lock()


class RewriteBoolOps:
    """Namespace of the boolean dispatchers."""

    dsl_and_ = staticmethod(flow.dsl_and_)
    dsl_or_ = staticmethod(flow.dsl_or_)
    dsl_not_ = staticmethod(flow.dsl_not_)


class ReplaceIfWithDispatch:
    """Namespace of the branch dispatchers; kernels call them directly."""

    scf_if_dispatch = staticmethod(flow.scf_if_dispatch)
    scf_ifexp_dispatch = staticmethod(flow.scf_ifexp_dispatch)
    scf_if_collect_results = staticmethod(flow.scf_if_collect_results)


class InsertEmptyYieldForSCFFor:
    """Namespace of the loop dispatchers."""

    scf_range = staticmethod(loops.scf_range)
    scf_for_dispatch = staticmethod(loops.scf_for_dispatch)
    scf_for_collect_results = staticmethod(flow.scf_for_collect_results)


class ReplaceYieldWithSCFYield:
    """Namespace of the explicit yield."""

    scf_yield_ = staticmethod(loops.scf_yield_)


class CanonicalizeWhile:
    """Namespace of the while dispatchers."""

    scf_while_dispatch = staticmethod(loops.scf_while_dispatch)
    scf_while_collect_results = staticmethod(flow.scf_while_collect_results)


class FallbackLocations(ast.NodeTransformer):
    """Per-statement locations, with debug info on: ops that a raw builder makes without a location get their
    statement's line. DSL operations capture their own, more exact location anyway."""

    _SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Assert)

    def __init__(self, filename: str, suspends: bool) -> None:
        self.filename, self.suspends = filename, suspends

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, self._SIMPLE) or isinstance(node, ast.AnnAssign) and node.value is None:
            return self.generic_visit(node)
        # A yield that suspends would leave its location current: explicit loops keep theirs.
        if self.suspends and any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(node)):
            return node
        at: dict[str, Any] = {name: getattr(node, name) for name in node._attributes}
        place: list[ast.expr] = [ast.Constant(v, **at) for v in (self.filename, node.lineno, node.col_offset + 1)]
        enter = ast.Call(ast.Name("_flydsl_loc", ast.Load(), **at), place, [], **at)
        return ast.With([ast.withitem(enter)], [node], **at)


_HELPERS: dict[str, Any] = {
    "dsl_and_": flow.dsl_and_,
    "dsl_or_": flow.dsl_or_,
    "dsl_not_": flow.dsl_not_,
    "dsl_boolop_": flow.dsl_boolop_,
    "dsl_assigned_": flow.dsl_assigned_,
    "dsl_compare_chain_": flow.dsl_compare_chain_,
    "dsl_container_": flow.dsl_container_,
    "dsl_key_": flow.dsl_key_,
    "dsl_min_max_": flow.dsl_min_max_,
    # With underscores at the end, too, so that they are not renamed in classes.
    "__check_local_var__": flow.check_local_var,
    "__names__": state.Names,
    "__locals__": locals,  # a function may have a variable of that name
    "__require_static__": flow.require_static_,
    "__const_expr__": flow.const_expr,
    "__check_raise__": flow.check_raise,
    "__check_local_var": flow.check_local_var,  # the older name
    "_flydsl_loc": flow.statement_location,
    "scf_if_dispatch": flow.scf_if_dispatch,
    "scf_return_dispatch": flow.scf_return_dispatch,
    "scf_ifexp_dispatch": flow.scf_ifexp_dispatch,
    "scf_if_collect_results": flow.scf_if_collect_results,
    "scf_range": loops.scf_range,
    "scf_for_dispatch": loops.scf_for_dispatch,
    "pipeline_for_dispatch": pipelines.pipeline_for_dispatch,
    "scf_for_collect_results": flow.scf_for_collect_results,
    "scf_yield_": loops.scf_yield_,
    "scf_while_dispatch": loops.scf_while_dispatch,
    "scf_while_collect_results": flow.scf_while_collect_results,
    "scf_while_condition": loops.scf_while_condition,
}


def _collect_assigned_vars(
    body: list[ast.stmt], active_scopes: list[set[str]], orelse: list[ast.stmt] | None = None,
    test_expr: ast.expr | None = None,
) -> list[str]:
    """Active names that a construct may change: written ones in order of appearance, then those only called upon."""
    active = set().union(*active_scopes)
    nodes: list[ast.AST] = [*body, *(orelse or ()), *([test_expr] if test_expr is not None else ())]
    return [name for name in BlockWrites(nodes, active).names if name in active]


def _changed(what: str) -> str:
    return (f"the file of a traced function has changed since it was imported: {what}. Import it anew, or, if exec "
            "made it, register its text with linecache.cache before")


@dataclass(frozen=True)
class Source:
    """Where a function is written, as it was when the function was defined: its file may change before it is rewritten.

    Attributes:
        file_lines: of the whole file.
    """

    file_lines: list[str]
    first_line: int

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Source:
        """The source of a function; OSError where there is none."""
        try:
            lines, before = inspect.findsource(function)
        except (OSError, TypeError) as error:
            name = getattr(function, "__qualname__", repr(function))
            raise OSError(
                f"could not get source code of {name}: a traced function needs its source. Put it in a file, or "
                "register the text with linecache.cache before exec (notebooks do this by themselves)."
            ) from error
        return cls(lines, before + 1)

    @functools.cached_property
    def text(self) -> str:
        """Of the function alone."""
        return "".join(inspect.getblock(self.file_lines[self.first_line - 1 :]))

    def parsed(self) -> ast.FunctionDef:
        """The syntax tree, with the positions of the file.

        Parsed where it stands in its file, so that no position has to be moved: empty lines before it, and a block
        around a function that is indented.
        """
        indented = self.text[:1] in (" ", "\t")
        before = "\n" * (self.first_line - 2) + "if 1:\n" if indented else "\n" * (self.first_line - 1)
        with _parsing:
            node = ast.parse(before + self.text).body[0]
        if indented and isinstance(node, ast.If):
            node = node.body[0]
            if self.first_line == 1:
                ast.increment_lineno(node, -1)
        if not isinstance(node, ast.FunctionDef):
            raise OSError(_changed(f"line {self.first_line} has no function any more"))
        return node


def plain_function(func: Any, decorator: str = "a traced function") -> FunctionType:
    """What a decorator of traced functions was given, which must have been written with ``def``.

    Raises:
        TypeError: it is no Python function.
        AssertionError: it is a lambda or an ``async def``.
    """
    if isinstance(func, FunctionType):
        if func.__code__.co_name == "<lambda>" or func.__code__.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
            raise AssertionError("only plain `def` functions can be traced (no lambda, no async def)")
        return func
    if isinstance(func, staticmethod):
        advice = "put @staticmethod above the decorator"
    elif isinstance(func, classmethod):
        advice = "use @staticmethod, above the decorator, and name the class"
    elif isinstance(func, functools.partial):
        advice = "decorate the function itself, with parameters (fx.Constexpr ones, too) for what is bound"
    elif isinstance(func, type):
        advice = "decorate its methods"
    else:
        advice = "decorate the function itself"
    what = f"{'class' if isinstance(func, type) else type(func).__name__} {getattr(func, '__qualname__', repr(func))}"
    raise TypeError(f"{decorator} needs a function written with `def`, got the {what}: {advice}")


def _parameters(code: CodeType) -> tuple[str, ...]:
    variadic = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + variadic]


def _find_code(code: CodeType, name: str) -> CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_name == name:
                return constant
            inner = _find_code(constant, name) if constant.co_name == "__fly_outer" else None
            if inner is not None:
                return inner
    return None


def provide_helpers(function: Any) -> None:
    """Put what rewritten code calls where a function finds its globals."""
    for name, helper in _HELPERS.items():
        function.__globals__.setdefault(name, helper)


class ASTRewriter:
    """Entry point of the rewriter."""

    @classmethod
    def transform(cls, f: Any, *, kernel: bool = False, source: Source | None = None) -> Any:
        """Rewrite a function in place and return it (or a new function when its closure shrank, or its `yield` went).

        Args:
            kernel: the function is a kernel body, which returns no value.
            source: of the function; default: what its file has now.

        Raises:
            DSLSyntaxError: a statement that cannot be lowered, with file, line and column.
            OSError: the source of the function is not available.
        """
        function = plain_function(getattr(f, "__func__", f), "ASTRewriter.transform")
        if getattr(function, "__fly_rewritten__", False):
            return f
        source = source or Source.of(function)
        node, original = source.parsed(), function.__code__
        code = _compile(node, function, kernel, suspends="yield" in source.text)
        if env.debug.ast_diff:
            diff = difflib.unified_diff(
                textwrap.dedent(source.text).splitlines(), ast.unparse(node).splitlines(), "original", "rewritten",
                lineterm="",
            )
            log().info("%s\n%s", function.__qualname__, "\n".join(diff))
        provide_helpers(function)
        if code.co_freevars == original.co_freevars and not (code.co_flags ^ original.co_flags) & inspect.CO_GENERATOR:
            function.__code__ = code
            result = function
        else:
            result = _with_cells(function, code)
        result.__fly_rewritten__ = True  # type: ignore[attr-defined]
        # The generated names differ from process to process; cache keys are made from what the user wrote.
        result.__fly_original__ = original  # type: ignore[attr-defined]
        return result


def _compile(node: ast.FunctionDef, function: FunctionType, kernel: bool, suspends: bool) -> CodeType:
    filename = function.__code__.co_filename
    node.decorator_list = []
    node.returns = None
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    if hasattr(node, "type_params"):  # Python 3.12: what is read of them is a captured variable
        node.type_params = []
    write_out_class(node, function)
    node = ast.fix_missing_locations(Transformer(filename, plain_bindings(node), kernel).visit(node))
    if env.debug.enable_debug_info:
        node = FallbackLocations(filename, suspends).generic_visit(node)  # type: ignore[assignment]
    body: list[ast.stmt] = []
    if node.name not in function.__code__.co_freevars:
        # A function that calls itself means the decorated one, as it does in Python.
        body.append(ast.Global([node.name]))
    for free in function.__code__.co_freevars:
        body.append(ast.Assign([ast.Name(free, ast.Store())], ast.Constant(None)))
    outer = ast.FunctionDef(
        "__fly_outer",
        ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]),
        body,
        [],
        None,
        None,
    )
    if "type_params" in ast.FunctionDef._fields:  # Python 3.12
        setattr(outer, "type_params", [])  # noqa: B010
    ast.fix_missing_locations(ast.copy_location(outer, node))
    body.append(node)  # whose parts have their locations
    flags = function.__code__.co_flags & 0x1000000  # from __future__ import annotations
    compiled = compile(ast.Module([outer], []), filename, "exec", flags=flags, dont_inherit=True)
    rewritten_spans.add((filename, function.__code__.co_firstlineno, node.end_lineno or node.lineno))
    code = _find_code(compiled, node.name)
    assert code is not None
    if code.co_name != function.__code__.co_name or _parameters(code) != _parameters(function.__code__):
        raise OSError(_changed(f"at {function.__name__} there is {node.name}({', '.join(_parameters(code))}) now"))
    if hasattr(code, "co_qualname"):  # Python 3.11
        return code.replace(**{"co_qualname": function.__qualname__})  # type: ignore[arg-type]
    return code


def _with_cells(function: FunctionType, code: CodeType) -> FunctionType:
    cells: dict[str, CellType] = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    new = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, tuple(cells[n] for n in code.co_freevars)
    )
    new.__kwdefaults__ = function.__kwdefaults__
    new.__annotations__ = function.__annotations__
    new.__dict__.update(function.__dict__)
    new.__doc__, new.__module__, new.__qualname__ = function.__doc__, function.__module__, function.__qualname__
    return new
