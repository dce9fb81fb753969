"""The transformer of a traced function's syntax tree; `ast_rewriter` compiles its result.

Every construct that may depend on a device value becomes a call of a dispatcher of `control_flow`. What can
never be lowered is rejected here, at its line and column.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections import Counter
from typing import Any

from flydsl.tracing.diagnostics import DiagRecord, DSLNotImplementedError, DSLSyntaxError, DSLTypeError, SourceFrame

from .ast_scope import (
    BlockWrites,
    always_returns,
    assigned_in_expression,
    binds_in_expression,
    call_name,
    escapes,
    function_locals,
    is_const_expr,
    is_dotted_name,
)

_NAMES = "__ret_names"
_counter = itertools.count()
_DUPLICATE_LIMIT = 400  # syntax nodes that may be copied into both branches of a nested return
_LOOK_UPS = ("get", "pop", "setdefault")  # of dictionaries
_COMPARE_TEXT = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}


def _name(text: str) -> ast.Name:
    return ast.Name(text, ast.Load())


def _call(function: str, *args: ast.expr, **keywords: ast.expr) -> ast.Call:
    return ast.Call(_name(function), list(args), [ast.keyword(k, v) for k, v in keywords.items()])


def _thunk(expression: ast.expr) -> ast.Lambda:
    empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(empty, expression)


def _strings(names: tuple[str, ...]) -> ast.Tuple:
    return ast.Tuple([ast.Constant(n) for n in names], ast.Load())


class Transformer(ast.NodeTransformer):
    def __init__(self, filename: str, plain_bound: set[str], kernel: bool = False) -> None:
        self.filename = filename
        self.plain_bound = plain_bound
        self.kernel = kernel
        self.stores: list[dict[str, list[int]]] = []
        self.globals: list[set[str]] = []
        self.nonlocals: list[set[str]] = []
        self.decided = False  # the innermost `if` around is a const_expr one
        self.locals: list[set[str]] = []
        self.explicit_depth = 0
        self.python_loops = 0
        self.class_body = False
        self.occurrences: list[Counter[str]] = []
        self.parameters: list[set[str]] = []

    # ---- calls

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """``min`` and ``max`` compare, which Python does with run-time values only where it is told how. A dictionary
        would not find a run-time value."""
        self.generic_visit(node)
        func, first = node.func, node.args[0] if node.args else None
        if first is not None and not isinstance(first, ast.Starred) and isinstance(func, ast.Attribute):
            if func.attr in _LOOK_UPS and is_dotted_name(func.value):
                node.args[0] = ast.copy_location(_call("dsl_key_", func.value, first), first)
        if isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            call = ast.Call(_name("dsl_min_max_"), [node.func, *node.args], node.keywords)
            return ast.copy_location(call, node)
        return node

    # ---- helpers

    def _frame(self, node: Any) -> SourceFrame:
        end = node.end_col_offset if node.end_lineno == node.lineno else None
        return SourceFrame(self.filename, node.lineno, node.col_offset, end)

    def reject(self, node: ast.AST, message: str) -> None:
        raise DSLSyntaxError(message, self._frame(node))

    def body_of(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in statements:
            new = self.visit(statement)
            out += new if isinstance(new, list) else [new]
        return out

    def make_function(
        self, name: str, head: list[str], names: tuple[str, ...], body: list[ast.stmt], at: ast.AST, collect: str | None
    ) -> ast.FunctionDef:
        tail: list[ast.stmt] = []
        if collect is not None:
            tail.append(ast.Return(_call(collect, _name(_NAMES), _call("__locals__"))))
        arguments = ast.arguments(
            posonlyargs=[],
            args=[ast.arg(a) for a in (*head, _NAMES, *names)],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[],
        )
        # The names are parameters here, so the body must not declare them nonlocal again.
        body = [st for st in body if not (isinstance(st, ast.Nonlocal) and set(st.names) <= set(names))]
        function = ast.FunctionDef(name, arguments, [*body, *tail] or [ast.Pass()], [], None, None)
        if "type_params" in ast.FunctionDef._fields:  # Python 3.12
            setattr(function, "type_params", [])  # noqa: B010
        return ast.copy_location(function, at)

    def assign(self, names: tuple[str, ...], call: ast.Call, at: ast.AST) -> ast.stmt:
        if not names:
            return ast.copy_location(ast.Expr(call), at)
        targets: ast.expr = ast.Name(names[0], ast.Store())
        if len(names) > 1:
            targets = ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store())
        return ast.copy_location(ast.Assign([targets], call), at)

    def values_of(self, names: tuple[str, ...], kind: str, at: ast.AST) -> ast.Tuple:
        line = ast.Constant(at.lineno)  # type: ignore[attr-defined]
        return ast.Tuple([
            _call("__check_local_var__", ast.Constant(n), _call("__locals__"), line, ast.Constant(kind)) for n in names
        ], ast.Load())

    def state(self, writes: BlockWrites, names: tuple[str, ...], kind: str, at: ast.AST) -> dict[str, ast.expr]:
        invoked = tuple(n for n in writes.invoked if n in names)
        use: dict[str, ast.expr] = {}
        if invoked:
            use["invoked"] = _strings(invoked)
        mutated = tuple(n for n in writes.mutated if n in names)
        if mutated:
            use["mutated"] = _strings(mutated)
        found = {n: lines for n in names if (lines := self._assignments(n, at))}
        if found:
            pairs: list[ast.expr] = [
                ast.Tuple([ast.Constant(a), ast.Constant(b)], ast.Load()) for a, b in found.values()
            ]
            use["lines"] = ast.Dict([ast.Constant(n) for n in found], pairs)
        given: ast.expr = _strings(names)
        return {
            "result_names": _call("__names__", given, **use) if use else given,
            "result_values": self.values_of(names, kind, at),
        }

    def _assignments(self, name: str, at: ast.AST) -> tuple[int, int] | None:
        """Lines of the assignment before a construct (0: none) and of the first one inside it."""
        lines = self.stores[-1].get(name, ())
        start, end = at.lineno, at.end_lineno  # type: ignore[attr-defined]
        inside = [n for n in lines if start <= n <= end]
        return (max((n for n in lines if n < start), default=0), inside[0]) if inside else None

    # ---- functions and scopes

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if self.locals:
            self._visit_outside(node)
        self.locals.append(function_locals(node))
        self.occurrences.append(_name_counts([node]))
        self.parameters.append({a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)})
        self.stores.append(_store_lines(node))
        self.globals.append({n for st in ast.walk(node) if isinstance(st, ast.Global) for n in st.names})
        self.nonlocals.append({n for st in ast.walk(node) if isinstance(st, ast.Nonlocal) for n in st.names})
        if self.kernel and len(self.locals) == 1:
            self._reject_returned_values(node)
        outer = self.explicit_depth, self.python_loops, self.decided, self.class_body
        self.explicit_depth, self.python_loops, self.decided, self.class_body = 0, 0, False, False
        node.body = self.tail_body(node.body)
        self.explicit_depth, self.python_loops, self.decided, self.class_body = outer
        for stack in (self.locals, self.occurrences, self.parameters, self.stores, self.globals, self.nonlocals):
            stack.pop()
        return node

    def _visit_outside(self, node: ast.FunctionDef | ast.Lambda) -> None:
        """What the enclosing function evaluates: defaults, decorators and annotations."""
        self.visit(node.args)
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = [self.visit(d) for d in node.decorator_list]
            node.returns = node.returns and self.visit(node.returns)

    def _reject_returned_values(self, node: ast.FunctionDef) -> None:
        for statement in escapes(node.body):
            value = statement.value if isinstance(statement, ast.Return) else None
            if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
                self.reject(statement, f"kernel {node.name!r} returns a value; kernels return nothing: write results "
                            "to memory (Out[i] = value)")

    def tail_body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """A function's statements. A branch that returns takes the statements after it into its other branch."""
        out: list[ast.stmt] = []
        for i, statement in enumerate(statements):
            if isinstance(statement, ast.If) and not is_const_expr(statement.test):
                lowered = self._return_dispatch(statement, statements[i + 1 :])
                if lowered is not None:
                    return out + lowered
            out += self.body_of([statement])
        return out

    def _return_dispatch(self, node: ast.If, rest: list[ast.stmt]) -> list[ast.stmt] | None:
        """``if c: ...return...`` in tail position: ``return scf_return_dispatch(c, then, else)``.

        None when the branch has no return, or when the rest would have to be duplicated at length.
        """
        leaving = escapes([*node.body, *node.orelse])
        if not leaving or not all(isinstance(s, ast.Return) for s in leaving):
            return None
        ends = always_returns(node.body), always_returns(node.orelse)
        if not any(ends) and sum(1 for s in rest for _ in ast.walk(s)) > _DUPLICATE_LIMIT:
            return None
        writes = BlockWrites([*node.body, *node.orelse, *rest], self.locals[-1])
        if writes.deleted or any(binds_in_expression(s) for s in rest if isinstance(s, (ast.Return, ast.Expr))):
            return None
        n = next(_counter)
        test = self.visit(node.test)
        out: list[ast.stmt] = []
        for kind, body, returns in (("then", node.body, ends[0]), ("else", node.orelse, ends[1])):
            full = [*body, *([] if returns else copy.deepcopy(rest) if not any(ends) else rest)]
            at = body[0] if body else node
            out.append(self.make_function(f"__{kind}_{n}", [], writes.names, self.tail_body(full), at, None))
        keywords = {"names": _strings(writes.names), "values": self.values_of(writes.names, "branch", node)}
        call = _call("scf_return_dispatch", test, _name(f"__then_{n}"), _name(f"__else_{n}"),
                     ast.Constant(leaving[0].lineno), **keywords)
        out.append(ast.copy_location(ast.Return(ast.copy_location(call, node.test)), node))
        return out

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._visit_outside(node)
        self.locals.append(function_locals(node))
        outer, self.class_body = self.class_body, False
        node.body = self.visit(node.body)
        self.class_body = outer
        self.locals.pop()
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Its statements and conditions stay Python's: what they bind are attributes, which no function would see."""
        outer, self.class_body = self.class_body, True
        self.generic_visit(node)
        self.class_body = outer
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        self.reject(node, "async functions cannot be traced")
        return node

    # ---- boolean operators

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        if self.class_body:
            return self.generic_visit(node)
        if any(binds_in_expression(v) for v in node.values[1:]):
            return self._boolop_in_scope(node)
        values = [self.visit(v) for v in node.values]
        call = _call("dsl_boolop_", ast.Constant(isinstance(node.op, ast.And)), values[0], *map(_thunk, values[1:]))
        return ast.copy_location(call, node)

    def _boolop_in_scope(self, node: ast.BoolOp) -> ast.AST:
        """Fold with temporaries, for operands that assign names of this function."""
        is_and = isinstance(node.op, ast.And)
        result = self.visit(node.values[0])
        for value in node.values[1:]:
            temporary = f"__bool_{next(_counter)}"
            bind = ast.NamedExpr(ast.Name(temporary, ast.Store()), result)
            decided = ast.Compare(bind, [ast.Is()], [ast.Constant(not is_and)])
            fold = _name("dsl_and_" if is_and else "dsl_or_")
            both = self._evaluated_operand(value, is_and, temporary, fold)
            result = ast.IfExp(decided, _name(temporary), both)
        return ast.copy_location(result, node)

    def _evaluated_operand(self, value: ast.expr, is_and: bool, before: str, fold: ast.Name) -> ast.expr:
        """``fold(before, value)``; names that `value` assigns keep their value where Python would have skipped it."""
        names = assigned_in_expression(value)
        if not names:
            return ast.Call(fold, [_name(before), self.visit(value)], [])

        def keep(name: str, expression: ast.expr) -> ast.expr:
            return ast.NamedExpr(ast.Name(name, ast.Store()), expression)

        def present(name: str) -> ast.expr:
            return _call("__check_local_var__", ast.Constant(name), _call("__locals__"), ast.Constant(value.lineno),
                         ast.Constant("operand"))

        old = {name: f"__old_{next(_counter)}" for name in names}
        operand = f"__operand_{next(_counter)}"
        steps = [keep(old[n], present(n)) for n in names]
        steps.append(keep(operand, self.visit(value)))
        steps += [keep(n, _call("dsl_assigned_", ast.Constant(is_and), _name(before), _name(old[n]), present(n),
                                ast.Constant(n))) for n in names]
        steps.append(ast.Call(fold, [_name(before), _name(operand)], []))
        return ast.Subscript(ast.Tuple(steps, ast.Load()), ast.Constant(-1), ast.Load())

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return ast.copy_location(_call("dsl_not_", node.operand), node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            node.comparators = [_call("dsl_container_", node.comparators[0])]
            return node
        if len(node.ops) == 1 or self.class_body or any(binds_in_expression(c) for c in node.comparators):
            return node
        rest: list[ast.expr] = []
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            rest += [ast.Constant(_COMPARE_TEXT[type(op)]), _thunk(comparator)]
        return ast.copy_location(_call("dsl_compare_chain_", node.left, *rest), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        static = is_const_expr(node.test)
        self.generic_visit(node)
        if static or self.class_body:
            return node
        if binds_in_expression(node.body) or binds_in_expression(node.orelse):
            node.test = ast.copy_location(
                _call("__require_static__", node.test, ast.Constant("an assignment inside a conditional "
                                                                  "expression")), node.test)
            return node
        return ast.copy_location(_call("scf_ifexp_dispatch", node.test, _thunk(node.body), _thunk(node.orelse)), node)

    # ---- statements

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        what = "`assert` is checked while tracing (on the device, branch and report with fx.printf); this one"
        node.test = ast.copy_location(_call("__require_static__", self.visit(node.test), ast.Constant(what)), node.test)
        if node.msg is not None:
            node.msg = self.visit(node.msg)
        return node

    def visit_If(self, node: ast.If) -> Any:
        if is_const_expr(node.test):
            assert isinstance(node.test, ast.Call)
            outer, self.decided = self.decided, True
            self.generic_visit_statement(node)
            self.decided = outer
            node.test.func = ast.copy_location(_name("__const_expr__"), node.test.func)
            return node
        outer, self.decided = self.decided, False
        result = self._plain_if(node)
        self.decided = outer
        return result

    def visit_Raise(self, node: ast.Raise) -> Any:
        self.generic_visit(node)
        check = ast.Expr(_call("__check_raise__"))
        return node if self.decided else [ast.copy_location(check, node), node]

    def _plain_if(self, node: ast.If) -> Any:
        leaving = escapes([*node.body, *node.orelse])
        writes = BlockWrites([*node.body, *node.orelse], self.locals[-1])
        if leaving or writes.deleted or self.class_body:
            # Python's own statement: what leaves the construct cannot be a run-time branch.
            first = [*leaving, *writes.deleted, node][0]
            known = {ast.Return: "return", ast.Break: "break", ast.Continue: "continue", ast.If: "if"}
            what = known.get(type(first), "del")
            self.generic_visit_statement(node)
            text = ast.Constant(f"`{what}` (line {getattr(first, 'lineno', '?')})")
            node.test = ast.copy_location(_call("__require_static__", node.test, text), node.test)
            return node
        return self._if_dispatch(node, writes)

    def generic_visit_statement(self, node: ast.If | ast.While) -> None:
        node.test = self.visit(node.test)
        loop = isinstance(node, ast.While)
        self.python_loops += loop
        node.body = self.body_of(node.body)
        self.python_loops -= loop
        node.orelse = self.body_of(node.orelse)

    def _reject_global_writes(self, writes: BlockWrites, node: ast.AST) -> None:
        for name in writes.bound:
            if name in self.globals[-1]:
                self.reject(node, f"global name {name!r} is assigned in a branch or loop that may run on the device; "
                            "use a local variable, and return or store the result")

    def _if_dispatch(self, node: ast.If, writes: BlockWrites) -> list[ast.stmt]:
        n = next(_counter)
        self._reject_global_writes(writes, node)
        names = self._visible(writes, node)
        test = self.visit(node.test)
        collect = "scf_if_collect_results"
        out: list[ast.stmt] = [self.make_function(f"__then_{n}", [], names, self.body_of(node.body), node, collect)]
        otherwise: ast.expr = ast.Constant(None)
        keywords = self.state(writes, names, "branch", node)
        if node.orelse or names:
            empty: list[ast.stmt] = [ast.copy_location(ast.Pass(), node)]
            body = self.body_of(node.orelse) if node.orelse else empty
            out.append(
                self.make_function(f"__else_{n}", [], names, body, node.orelse[0] if node.orelse else node, collect)
            )
            otherwise = _name(f"__else_{n}")
            if not node.orelse:
                keywords["auto_else"] = ast.Constant(True)
        call = _call("scf_if_dispatch", test, _name(f"__then_{n}"), otherwise, **keywords)
        out.append(self.assign(names, ast.copy_location(call, node.test), node))
        return out

    def _visible(self, writes: BlockWrites, node: ast.If) -> tuple[str, ...]:
        """The written names that anything outside the statement can see."""
        if self.python_loops:
            return writes.names  # a later iteration may read what this one bound
        inside, everywhere = _name_counts([*node.body, *node.orelse]), self.occurrences[-1]
        parameters = self.parameters[-1]
        return tuple(
            n for n in writes.names
            if n not in writes.bound or n in parameters or n in self.nonlocals[-1] or everywhere[n] > inside[n]
        )

    def visit_While(self, node: ast.While) -> Any:
        if self.class_body:
            self.generic_visit_statement(node)
            return node
        if is_const_expr(node.test):
            self.generic_visit_statement(node)
            assert isinstance(node.test, ast.Call)
            node.test.func = ast.copy_location(_name("__const_expr__"), node.test.func)
            return node
        if node.orelse:
            first = node.orelse[0]
            raise DSLNotImplementedError(
                "while ... else over a run-time condition: the else part would always run; put it after the loop",
                SourceFrame(self.filename, first.lineno, first.col_offset),
            )
        self._reject_escapes(node.body, "while")
        if isinstance(node.test, ast.Constant) and node.test.value:
            self.reject(node, "`while True:` never ends on the device (there is no break): loop on a carried condition")
        n = next(_counter)
        writes = BlockWrites([*node.body, node.test], self.locals[-1])
        self._reject_del(writes)
        self._reject_global_writes(writes, node)
        assigns = bool(assigned_in_expression(node.test))
        condition = self.visit(node.test)
        if assigns:
            condition = _call("scf_while_condition", condition, _name(_NAMES), _call("__locals__"))
        test = ast.copy_location(ast.Return(condition), node.test)
        before = self.make_function(f"__while_before_{n}", [], writes.names, [test], node, None)
        after = self.make_function(f"__while_after_{n}", [], writes.names, self.body_of(node.body), node,
                                   "scf_while_collect_results")
        call = _call(
            "scf_while_dispatch",
            _name(before.name),
            _name(after.name),
            **self.state(writes, writes.names, "loop", node),
        )
        return [before, after, self.assign(writes.names, ast.copy_location(call, node.test), node)]

    def _reject_escapes(self, body: list[ast.stmt], loop: str) -> None:
        for statement in escapes(body):
            what = {ast.Return: "return", ast.Break: "break", ast.Continue: "continue"}[type(statement)]
            hint = (
                "carry a flag and test it in the loop body"
                if loop == "for"
                else "put the condition into the `while` test"
            )
            outside = "outside function" if what == "return" else "outside loop"
            self.reject(statement, f"'{what}' {outside}: it cannot leave a run-time `{loop}` loop; {hint}, "
                        "or use range_constexpr / while const_expr(...) for a loop that is unrolled while "
                        "tracing")

    def _reject_del(self, writes: BlockWrites) -> None:
        for node in writes.deleted:
            self.reject(node, "`del` of a name inside a run-time loop cannot be lowered; stop using the name instead")

    def visit_For(self, node: ast.For) -> Any:
        kind = call_name(node.iter)
        if kind == "range_constexpr":
            assert isinstance(node.iter, ast.Call)
            node.iter.func = ast.copy_location(_name("range"), node.iter.func)
            kind = None
        if kind not in ("range", "pipeline_range") or self.class_body:
            node.iter = self.visit(node.iter)
            self.python_loops += 1
            node.body = self.body_of(node.body)
            self.python_loops -= 1
            node.orelse = self.body_of(node.orelse)
            return node
        if node.orelse:
            self.reject(
                node.orelse[0],
                "for ... else over a run-time range: the else part would always run; put it after the loop",
            )
        self._reject_escapes(node.body, "for")
        assert isinstance(node.iter, ast.Call)
        keywords = {k.arg: k.value for k in node.iter.keywords}
        if kind == "pipeline_range":
            if keywords or len(node.iter.args) != 1:
                self.reject(node.iter, "pipeline_range takes one argument, an fx.Pipeline")
            return self._auto_for(node, node.iter, {}, "pipeline_for_dispatch")
        unknown = set(keywords) - {"init", "unroll", "unroll_full"}
        if unknown or any(isinstance(a, ast.Starred) for a in node.iter.args) or not 1 <= len(node.iter.args) <= 3:
            self.reject(node.iter, "range takes 1 to 3 bounds and the keywords init, unroll and unroll_full")
        return self._explicit_for(node, node.iter) if "init" in keywords else self._auto_for(node, node.iter, keywords)

    def _explicit_for(self, node: ast.For, iterable: ast.Call) -> ast.AST:
        iterable = self.generic_visit(iterable)  # type: ignore[assignment]
        iterable.func = ast.copy_location(_name("scf_range"), iterable.func)
        node.iter = iterable
        self.explicit_depth += 1
        node.body = self.body_of(node.body)
        self.explicit_depth -= 1
        return node

    def _auto_for(self, node: ast.For, iterable: ast.Call, keywords: dict[str | None, ast.expr],
                  dispatch: str = "scf_for_dispatch") -> list[ast.stmt]:
        if not isinstance(node.target, ast.Name):
            text = ("the target of a run-time range must be one name; to carry values write "
                    "`for i, state in range(..., init=[...])`")
            raise DSLTypeError(text, [DiagRecord(text, (self._frame(node.target),))])
        n = next(_counter)
        induction = node.target.id
        writes = BlockWrites(node.body, self.locals[-1])
        self._reject_del(writes)
        self._reject_global_writes(writes, node)
        names = writes.names
        if dispatch == "scf_for_dispatch" and induction not in names and induction in self.plain_bound:
            # The name has a meaning before the loop, so its last value is carried out.
            names = (induction, *names)
        args = [self.visit(a) for a in iterable.args]
        if dispatch == "scf_for_dispatch":
            bounds = [ast.Constant(0), args[0]] if len(args) == 1 else args[:2]
            args = [*bounds, args[2] if len(args) == 3 else ast.Constant(1)]
        head = "__iv" if induction in names else induction
        outer, self.python_loops = self.python_loops, 0
        body = self.body_of(node.body)
        self.python_loops = outer
        if head != induction:
            body.insert(0, ast.copy_location(ast.Assign([ast.Name(induction, ast.Store())], _name(head)), node.target))
        function = self.make_function(f"__for_body_{n}", [head], names, body, node, "scf_for_collect_results")
        extra = {k: self.visit(v) for k, v in keywords.items() if k is not None}
        call = _call(dispatch, *args, _name(function.name), **self.state(writes, names, "loop", node), **extra)
        return [function, self.assign(names, ast.copy_location(call, iterable), node)]

    def visit_Yield(self, node: ast.Yield) -> ast.AST:
        if not self.explicit_depth:
            self.reject(node, "yield is only meaningful at the end of a `for ... in range(..., init=[...])` body")
        value = self.visit(node.value) if node.value is not None else ast.Tuple([], ast.Load())
        return ast.copy_location(_call("scf_yield_", value), node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.AST:
        self.reject(node, "yield from cannot be traced")
        return node


def _name_counts(nodes: list[Any]) -> Counter[str]:
    """How often each name occurs, in nested functions too."""
    return Counter(n.id for root in nodes for n in ast.walk(root) if isinstance(n, ast.Name))


def _store_lines(function: ast.FunctionDef) -> dict[str, list[int]]:
    """Lines where each name is assigned, in order."""
    lines: dict[str, list[int]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            lines.setdefault(node.arg, []).append(node.lineno)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            lines.setdefault(node.id, []).append(node.lineno)
    return {name: sorted(found) for name, found in lines.items()}


def plain_bindings(root: ast.AST) -> set[str]:
    """Parameters and assignment targets of a function, without loop targets."""
    names: set[str] = set()
    for node in ast.walk(root):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {
                t.id
                for target in targets
                for t in ast.walk(target)
                if isinstance(t, ast.Name) and isinstance(t.ctx, ast.Store)
            }
    return names
