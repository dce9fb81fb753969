"""Typed settings: every environment variable of the compiler, in one table.

A setting is read on every access (tests and notebooks change the environment while they run), in this
order: an enclosing :func:`override`, the environment, the default. Traced code never reads a setting.

>>> from flydsl.utils import env
>>> with env.override(dump_ir=True):
...     env.debug.dump_ir
True
"""

from __future__ import annotations

import contextlib
import contextvars
import difflib
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = [
    "EnvManager", "OptBool", "OptInt", "OptList", "OptStr", "Option",
    "autotune", "compile", "debug", "describe", "ktrace", "managers", "override", "runtime", "warn_unknown_variables",
]

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off", ""})
_overrides: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("flydsl_settings", default=None)
_warned: set[tuple[str, str]] = set()


class Option:
    """One setting: a descriptor that reads its environment variable on each access.

    Args:
        kind: ``bool``, ``int``, ``str`` or ``list``.
        default: value when nothing sets it; a function is asked each time, and its docstring's first line says what
            it answers.
        doc: one line for the table of settings.
        var: variable name; default ``FLYDSL_<GROUP>_<NAME>``.
        choices: accepted strings. minimum, maximum: accepted integers.
    """

    def __init__(
        self,
        kind: type,
        default: Any,
        doc: str,
        *,
        var: str | None = None,
        choices: tuple[str, ...] | None = None,
        minimum: int | None = None,
        maximum: int | None = None,
        separator: str = ",",
        element: type = str,
    ) -> None:
        self.kind, self.default, self.doc = kind, default, doc
        self.var = var or ""  # named after group and attribute unless given
        self.choices, self.minimum, self.maximum = choices, minimum, maximum
        self.separator, self.element = separator, element
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        if not self.var:
            group = getattr(owner, "env_prefix", "") or getattr(owner, "group", "")
            self.var = "_".join(part for part in ("FLYDSL", group.upper(), name.upper()) if part)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        over = _overrides.get()
        if over is not None and self.var in over:
            return over[self.var]
        text = os.environ.get(self.var)
        if text is not None:
            return self.parse(text)
        return self.default() if callable(self.default) else self.default

    @property
    def shown_default(self) -> Any:
        """The default, in words where it depends on something."""
        return (self.default.__doc__ or "").splitlines()[0] if callable(self.default) else self.default

    def source(self) -> str:
        """Where the current value comes from: ``override``, ``environment`` or ``default``."""
        over = _overrides.get()
        if over is not None and self.var in over:
            return "override"
        return "environment" if self.var in os.environ else "default"

    def parse(self, text: str) -> Any:
        """The typed value of a variable's text. ValueError names the variable and the text."""
        if self.kind is bool:
            word = text.strip().lower()
            if word not in _TRUE and word not in _FALSE:
                _warn_once(
                    self.var, text, f"{self.var}={text!r} is taken as false; use 1/true/yes/on or 0/false/no/off"
                )
            return word in _TRUE
        if self.kind is list:
            parts = [p.strip() for p in text.split(self.separator) if p.strip()]
            try:
                return [self.element(p) for p in parts]
            except ValueError:
                raise ValueError(f"{self.var}={text!r}: every entry must be a {self.element.__name__}") from None
        if self.kind is int:
            try:
                value = int(text.strip())
            except ValueError:
                raise ValueError(f"{self.var}={text!r} is not an integer") from None
            return self._in_range(value, text)
        return self._among_choices(text) if self.choices is not None else text

    def checked(self, value: Any) -> Any:
        """A value given in Python. TypeError for another type than the setting's, ValueError out of its range."""
        if self.kind is str and isinstance(value, os.PathLike):
            value = os.fspath(value)
        matches = isinstance(value, (list, tuple) if self.kind is list else self.kind)
        if not matches or self.kind is int and isinstance(value, bool):
            raise TypeError(f"{self.name} is {self.kind.__name__}, not {type(value).__name__} ({value!r})")
        if self.kind is int:
            return self._in_range(value, value)
        return self._among_choices(value) if self.choices is not None else value

    def _among_choices(self, text: str) -> str:
        assert self.choices is not None
        for choice in self.choices:
            if choice.lower() == text.strip().lower():
                return choice
        raise ValueError(f"{self.var}={text!r} is not one of {', '.join(self.choices)}")

    def _in_range(self, value: int, given: str | int) -> int:
        if self.minimum is not None and value < self.minimum or self.maximum is not None and value > self.maximum:
            raise ValueError(f"{self.var}={given!r} is out of range ({self._range()})")
        return value

    def _range(self) -> str:
        low = "" if self.minimum is None else f"{self.minimum} <= "
        high = "" if self.maximum is None else f" <= {self.maximum}"
        return f"{low}value{high}"


def OptBool(default: bool, description: str = "", *, env_var: str | None = None) -> Option:  # noqa: N802
    """A boolean `Option`, for settings classes of kernel libraries."""
    return Option(bool, default, description, var=env_var)


def OptInt(default: int, description: str = "", *, min_value: int | None = None,  # noqa: N802
           max_value: int | None = None, env_var: str | None = None) -> Option:
    """An integer `Option`."""
    return Option(int, default, description, var=env_var, minimum=min_value, maximum=max_value)


def OptStr(default: str, description: str = "", *, choices: Sequence[str] | None = None,  # noqa: N802
           env_var: str | None = None) -> Option:
    """A string `Option`."""
    return Option(str, default, description, var=env_var, choices=None if choices is None else tuple(choices))


def OptList(default: Sequence[Any] = (), description: str = "", *, separator: str = ",",  # noqa: N802
            element_type: type = str, env_var: str | None = None) -> Option:
    """An `Option` that is a list."""
    return Option(list, list(default), description, var=env_var, separator=separator, element=element_type)


def _warn_once(var: str, text: str, message: str) -> None:
    if (var, text) not in _warned:
        _warned.add((var, text))
        warnings.warn(message, UserWarning, stacklevel=4)


class EnvManager:
    """A group of settings."""

    group = ""
    options: dict[str, Option] = {}

    def __init_subclass__(cls) -> None:
        cls.options = {k: v for k, v in vars(cls).items() if isinstance(v, Option)}

    def to_dict(self) -> dict[str, Any]:
        """Current value of every setting of the group."""
        return {name: getattr(self, name) for name in self.options}

    @classmethod
    def help(cls) -> str:
        """One line per setting: variable, type, default, meaning."""
        lines = [f"{o.var} ({o.kind.__name__}, default {o.shown_default!r}): {o.doc}" for o in cls.options.values()]
        return "\n".join(lines)


class _Compile(EnvManager):
    group = "compile"
    opt_level = Option(int, 2, "optimisation level of the code generator", minimum=0, maximum=3)
    compile_only = Option(bool, False, "compile and cache, never touch a device; calls return None", var="COMPILE_ONLY")
    and_launch = Option(bool, False, "flyc.compile(function, ...) also launches once, for programs that rely on it")
    arch = Option(str, "", "target architecture of compilation; beats all detection", var="ARCH")
    backend = Option(str, "rocm", "compile backend id")
    llvm_dir = Option(str, "", "external LLVM/MLIR prefix for the final code generation")
    extra_source_dirs = Option(
        list, [], "directories hashed into the toolchain fingerprint", var="FLYDSL_EXTRA_SOURCE_DIRS", separator=":"
    )


def _line_tables_wanted() -> bool:
    """on where kernels run on the simulator, or a check is set"""
    if os.environ.get("FLYDSL_SIM_CHECK"):
        return True
    return _for_the_simulator()


def _for_the_simulator() -> bool:
    if compile.compile_only:
        return False  # what is compiled here runs elsewhere
    kind = os.environ.get("FLYDSL_RUNTIME_KIND", "").strip().lower()
    if kind:
        return kind == "sim"
    from flydsl.runtime.device import get_rocm_device_count

    return get_rocm_device_count() == 0


def extents_checked() -> bool:
    """Whether kernels compiled now report stores beyond an extent of a tensor: on the simulator, under ``oob``."""
    from flydsl.runtime.requested_checks import requested

    return "oob" in requested() and _for_the_simulator()


class _Debug(EnvManager):
    group = "debug"
    dump_ir = Option(bool, False, "write the IR after each stage", var="FLYDSL_DUMP_IR")
    dump_dir = Option(str, "~/.flydsl/debug", "directory of the dumps", var="FLYDSL_DUMP_DIR")
    dump_asm = Option(bool, False, "write only the final assembly")
    ast_diff = Option(bool, False, "log a diff of each rewriting step (needs INFO logging)")
    log_level = Option(str, "WARNING", "level of the log handlers", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    log_to_file = Option(str, "", "log file, overwritten")
    log_to_console = Option(bool, False, "log to stderr")
    print_origin_ir = Option(bool, False, "log the traced module")
    print_after_all = Option(bool, False, "print the IR after each pass")
    enable_debug_info = Option(bool, _line_tables_wanted, "line tables in the code object; part of the cache key")
    enable_verifier = Option(bool, True, "verify the IR after each pass")
    timing = Option(bool, False, "print the seconds of each compile phase to stderr")
    show_stacktrace = Option(bool, False, "raw tracebacks for compile errors")
    max_loc_depth = Option(int, 5, "frames kept in a location chain", minimum=1)


class _Runtime(EnvManager):
    group = "runtime"
    kind = Option(str, "", "device runtime: rocm or sim; empty: rocm when a GPU is visible, else sim")
    cache_dir = Option(str, "~/.flydsl/cache", "root of the disk cache; empty disables it")
    enable_cache = Option(bool, True, "disk cache on or off")
    cache_size_mb = Option(
        int, 4096, "bound of the disk cache in MiB; the least recently used artifacts go first; 0: unbounded", minimum=0
    )
    run_only = Option(bool, False, "only run cached artifacts, never compile")
    prebuilt = Option(bool, True, "look a call up among the prebuilt artifacts that packages ship before compiling it")
    prebuilt_dir = Option(str, "", "folder of prebuilt artifacts, before those of the installed packages")


class _Autotune(EnvManager):
    group = "autotune"
    config_dir = Option(str, "", "offline configuration artifacts; empty disables them")
    force = Option(bool, False, "always search", var="FLYDSL_AUTOTUNE")
    cache_dir = Option(str, "~/.flydsl/autotune", "cache of searched winners")


class _Ktrace(EnvManager):
    group = "ktrace"
    enable = Option(bool, False, "instrument kernels (gfx942, gfx950)")
    buffer_bytes = Option(int, 67108864, "device trace buffer", minimum=4096, maximum=2**31)
    blocks = Option(str, "", "filter: x,y,z or xcc:N")
    dump_dir = Option(str, "", "trace output directory; empty = current directory")


#: Context variable behind `override`; None when no setting is overridden.
override_variable = _overrides

#: The classes of the groups, whose options and `help` other packages show.
CompileEnvManager, DebugEnvManager, RuntimeEnvManager = _Compile, _Debug, _Runtime
AutotuneEnvManager, KtraceEnvManager = _Autotune, _Ktrace

compile = _Compile()
debug = _Debug()
runtime = _Runtime()
autotune = _Autotune()
ktrace = _Ktrace()
managers: tuple[EnvManager, ...] = (compile, debug, runtime, autotune, ktrace)

# Read by other packages of the stack; listed so that a typo is recognised and the table is whole.
_FOREIGN = {
    "FLYDSL_GPU_ARCH": "architecture reported by get_rocm_arch()",
    "FLYDSL_ROCM_AGENT_TIMEOUT": "seconds for the architecture query tool",
    "FLYDSL_SIM_ARCH": "architecture of the simulated device",
    "FLYDSL_SIM_CHECK": "simulator checks: oob,race,uninit,barrier,nan,buffer,approx",
    "FLYDSL_SIM_STATS": "simulator counters",
    "FLYDSL_SIM_TRACE": "simulator trace file",
    "FLYDSL_SIM_THREADS": "worker threads of the simulator",
    "FLYDSL_HIP_LIBRARY": "path of the HIP library to load",
}


def _named(name: str) -> Option:
    """The setting that `override` means by a name: alone where one group has it, else with its group in front."""
    found = [(m.group, o) for m in managers for n, o in m.options.items() if name in (n, f"{m.group}_{n}")]
    if len(found) == 1:
        return found[0][1]
    if found:
        raise ValueError(f"several groups have a setting {name!r}: say "
                         + " or ".join(f"{group}_{name}" for group, _ in found))
    near = difflib.get_close_matches(name, {n for m in managers for n in m.options}, 3)
    raise ValueError(f"unknown setting {name!r}" + (f"; did you mean {', '.join(near)}?" if near else ""))


@contextlib.contextmanager
def override(**values: Any) -> Iterator[None]:
    """Set settings for the current thread or task by name, e.g. ``override(dump_ir=True, arch="gfx950")``.

    A name that several groups have takes its group in front: ``override(autotune_cache_dir="...")``.

    Raises:
        ValueError: unknown setting, one of several groups, or a value out of its range; the message has what is known.
        TypeError: a value of another type than the setting's.
    """
    chosen = {(option := _named(name)).var: option.checked(value) for name, value in values.items()}
    token = _overrides.set({**(_overrides.get() or {}), **chosen})
    try:
        yield
    finally:
        _overrides.reset(token)


def describe() -> list[dict[str, Any]]:
    """The table of settings: variable, type, default, current value, where it came from, meaning."""
    return [
        {"group": m.group, "name": name, "variable": o.var, "type": o.kind.__name__, "default": o.shown_default,
         "value": getattr(m, name), "source": o.source(), "doc": o.doc}
        for m in managers for name, o in m.options.items()
    ]


def warn_unknown_variables(emit: Callable[[str], None] | None = None) -> list[str]:
    """Warn once for a ``FLYDSL_*`` variable that is almost the name of a setting; returns the messages."""
    known = {o.var for m in managers for o in m.options.values()} | set(_FOREIGN)
    messages = []
    for var in os.environ:
        if not var.startswith("FLYDSL_") or var in known or (var, "?") in _warned:
            continue
        # Kernels have switches of their own, so only a near miss is worth a word.
        near = ["COMPILE_ONLY"] if var == "FLYDSL_COMPILE_ONLY" else difflib.get_close_matches(var, known, 1, 0.88)
        if near:
            _warned.add((var, "?"))
            messages.append(f"environment variable {var} is not known; did you mean {near[0]}?")
    for message in messages:
        (emit or (lambda m: warnings.warn(m, UserWarning, stacklevel=3)))(message)
    return messages
