"""Parameters of traced functions: annotations resolved, arguments bound."""

from __future__ import annotations

import difflib
import functools
import inspect
import types
import typing
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from flydsl.utils.annotations import evaluate_annotation

__all__ = ["Parameters", "is_compile_time", "is_stream", "is_type_param_annotation"]


def is_type_param_annotation(annotation: Any) -> bool:
    """Whether an annotation is ``type``, ``Type``, ``type[T]`` or ``Type[T]``: the argument is a compile-time type."""
    return annotation is type or annotation is typing.Type or typing.get_origin(annotation) is type  # noqa: UP006


def is_constexpr(annotation: Any) -> bool:
    """Whether an annotation is ``fx.Constexpr`` or ``fx.Constexpr[T]``."""
    if annotation is None or annotation is inspect.Parameter.empty:
        return False
    from flydsl.expr.values.params import Constexpr

    return isinstance(annotation, type) and issubclass(annotation, Constexpr)


def is_compile_time(annotation: Any) -> bool:
    """Whether the parameter's value is known while tracing and enters the cache key."""
    if isinstance(annotation, str):
        # Unresolvable annotation text: its spelling is all there is to go by.
        return annotation.split(".")[-1].split("[")[0] in ("Constexpr", "Type", "type")
    return is_constexpr(annotation) or is_type_param_annotation(annotation)


def is_number_for_tensor(annotation: Any, kind: type) -> bool:
    """Whether values of the type `kind` are numbers while the annotation declares memory (fx.Tensor, fx.Pointer)."""
    names = {cls.__name__ for cls in getattr(annotation, "__mro__", ()) if cls.__module__.startswith("flydsl.expr")}
    if not names & {"Tensor", "Pointer"}:
        return False
    return kind in (bool, int, float) or hasattr(kind, "numpy_dtype") or hasattr(kind, "__int__")


def class_refusal(name: str, cls: type) -> str:
    """Why a class is no argument of a parameter that is not annotated as a type."""
    advice = "annotate the parameter `type`, as it is known while tracing only"
    if name == "cls":
        advice = "a traced function is no class method: use @staticmethod and name the class"
    return f"argument {name!r} is the class {cls.__qualname__}: {advice}"


def is_stream(annotation: Any) -> bool:
    """Whether an annotation is ``fx.Stream``."""
    return hasattr(annotation, "_is_stream_param")


def _resolve(function: Callable[..., Any]) -> dict[str, Any]:
    raw = dict(getattr(function, "__annotations__", {}))
    raw.pop("return", None)
    if not any(isinstance(a, str) for a in raw.values()):
        return raw
    names = dict(getattr(function, "__globals__", {}))
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)  # type: ignore[attr-defined]
    for name, cell in cells:
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue
    resolved, failed = {}, []
    for name, annotation in raw.items():
        try:
            resolved[name] = evaluate_annotation(annotation, names)
        except NameError:
            resolved[name] = annotation
            failed.append(name)
    if failed:
        warnings.warn(
            f"{function.__name__}: the annotations of {', '.join(failed)} cannot be evaluated; they are taken as "
            f"written",
            UserWarning, stacklevel=5)
    return resolved


class Parameters:
    """The signature of a traced function.

    Attributes:
        names: parameters in order, without ``self``.
        annotations: resolved annotation of each annotated parameter; that of a variadic one is of each argument.
        variadic: ``name`` of ``*name`` and ``**name``.
        method_self: ``"self"`` when the function is a method, else None.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        # Read from the code object: `inspect.signature` takes a tenth of a cached start.
        self._function = function
        self.annotations = _resolve(function)
        code: Any = function.__code__  # type: ignore[attr-defined]
        positional, keyword = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
        rest = keyword + bool(code.co_flags & inspect.CO_VARARGS)
        names = [*code.co_varnames[:positional], *code.co_varnames[keyword:rest],
                 *code.co_varnames[positional:keyword],
                 *code.co_varnames[rest : rest + bool(code.co_flags & inspect.CO_VARKEYWORDS)]]
        self.function_name = function.__name__
        self.method_self = "self" if names and names[0] == "self" else None
        self.names = [n for n in names if n != self.method_self]
        self.variadic = frozenset(names) - frozenset(code.co_varnames[:keyword])
        self._positional = names[:positional]
        defaults = function.__defaults__ or ()  # type: ignore[attr-defined]
        self.defaults = dict(zip(self._positional[positional - len(defaults) :], defaults, strict=True))
        self.defaults.update(function.__kwdefaults__ or {})  # type: ignore[attr-defined]
        self.simple = positional == len(names)
        self.simple_kinds = len(names) == keyword and not code.co_posonlyargcount
        self.positional_count = positional - (self.method_self is not None)

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The signature as `inspect` has it."""
        return inspect.signature(self._function, follow_wrapped=False)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments by parameter name, defaults applied, in signature order. TypeError as for a Python call."""
        if not kwargs and self.simple and len(args) <= len(self._positional):
            missing = self._positional[len(args) :]
            if all(n in self.defaults for n in missing):
                return dict(zip(self._positional, (*args, *(self.defaults[n] for n in missing)), strict=True))
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            owners = type(args[0]).__mro__ if args else ()
            unbound = self.method_self is not None and not any(self.function_name in vars(c) for c in owners)
            hint = " (a method: is the argument for 'self' missing? call it through an instance)" if unbound else ""
            raise TypeError(f"{self.function_name}(): {self._refusal(error, args, kwargs)}{hint}") from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def unpack(self, bound: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The positional and the keyword arguments of a call with what `bind` has by parameter name."""
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional += bound.get(name, ())
            elif parameter.kind is parameter.VAR_KEYWORD:
                keywords.update(bound.get(name, {}))
            elif parameter.kind is parameter.KEYWORD_ONLY:
                keywords[name] = bound[name]
            else:
                positional.append(bound[name])
        return positional, keywords

    def each(self, name: str, argument: Any, function: Callable[[Any], Any]) -> Any:
        """`function` of the argument of a parameter, or of each argument of a ``*name`` or ``**name``."""
        if name not in self.variadic:
            return function(argument)
        if isinstance(argument, dict):
            return {key: function(value) for key, value in argument.items()}
        return tuple(function(value) for value in argument)

    def _refusal(self, error: TypeError, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Why the arguments do not fit: the name that is unknown before the one that is missing for it."""
        known = self.signature.parameters
        unknown = [] if any(p.kind is p.VAR_KEYWORD for p in known.values()) else [n for n in kwargs if n not in known]
        if unknown:
            near = difflib.get_close_matches(unknown[0], known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the parameters are {', '.join(known)}"
            return f"got an unexpected keyword argument {unknown[0]!r}; {hint}"
        if "too many positional" in str(error):
            return f"{error}: got {len(args)}, the parameters are {', '.join(known)}"
        return str(error)

    @functools.cached_property
    def compile_time_names(self) -> frozenset[str]:
        """Parameters whose value enters the key and never becomes a runtime argument."""
        return frozenset(n for n in self.names if is_compile_time(self.annotations.get(n)))

    def odd_annotations(self) -> dict[str, Any]:
        """Runtime parameters whose annotation is no DSL type."""
        odd = {}
        for name in self.names:
            annotation = self.annotations.get(name)
            if annotation is None or isinstance(annotation, str) or is_compile_time(annotation):
                continue
            if not _is_dsl(annotation) and annotation is not SimpleNamespace and is_plain(annotation):
                odd[name] = annotation
        return odd


def _is_dsl(annotation: Any) -> bool:
    """Whether an annotation is a DSL type, one that may be left out (``fx.Tensor | None``), or a container."""
    if hasattr(annotation, "__construct_from_ir_values__") or hasattr(annotation, "__c_abi_spec__"):
        return True
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return all(part is type(None) or _is_dsl(part) for part in typing.get_args(annotation))
    return (typing.get_origin(annotation) or annotation) in (tuple, list, dict)


def is_plain(annotation: Any) -> bool:
    """Whether an annotation is an ordinary Python class or typing form."""
    module = getattr(annotation, "__module__", "")
    return not module.startswith("flydsl.")
