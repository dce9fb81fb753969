"""Reference pages of the Python API, from the docstrings that the modules have when they are imported.

Names are read from the imported modules, not from their sources: much of the language is loaded on first use,
generated from tables or re-exported. A public class or function without a docstring is a fault.
"""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass
from typing import Any

#: Package -> its public modules, in the order of the site.
MODULES = {
    "flydsl-layout": ("flydsl.layout",),
    "flydsl-ir": ("flydsl.ir",),
    "flydsl-runtime": ("flydsl.runtime", "flydsl.runtime.device"),
    "flydsl-compiler": (
        "flydsl.compiler", "flydsl.compiler.protocol", "flydsl.expr", "flydsl.expr.arith", "flydsl.expr.math",
        "flydsl.expr.vector", "flydsl.expr.gpu", "flydsl.expr.rocdl", "flydsl.expr.buffer_ops", "flydsl.autotune",
    ),
    "flydsl-kernels": (
        "flydsl.kernels", "flydsl.kernels.ops", "flydsl.kernels.attention", "flydsl.kernels.comm",
        "flydsl.kernels.conv", "flydsl.kernels.decode", "flydsl.kernels.elementwise", "flydsl.kernels.embedding",
        "flydsl.kernels.gemm", "flydsl.kernels.loss", "flydsl.kernels.moe", "flydsl.kernels.norm",
        "flydsl.kernels.patching", "flydsl.kernels.quant", "flydsl.kernels.rope", "flydsl.kernels.sampling",
        "flydsl.kernels.softmax", "flydsl.kernels.target", "flydsl.kernels.testing",
    ),
}
_ROLE = re.compile(r":\w+:`~?\.?([^`]+)`")
_QUOTED = re.compile(r"""(\w: |\) -> )(['"])(.*?)\2""")  # an annotation that was not evaluated
_SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields):$")
_ITEM = re.compile(r" {4}(\*{0,2}\w[\w., *]*): (.*)")
_FIELD = re.compile(r":(param|raises|returns?) ?([\w., ]*): (.*)")
_FIELDS = {"param": "Args", "raises": "Raises", "return": "Returns", "returns": "Returns"}


@dataclass(frozen=True)
class Entry:
    """One public name: how it is called, what it is, what its docstring says ("" if there is none)."""

    name: str
    kind: str
    signature: str
    text: str
    members: tuple[Entry, ...] = ()


def public_names(module: Any) -> list[str]:
    """``__all__`` if the module has one, else what its ``dir`` lists that it does not merely import from elsewhere."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(set(listed))
    return sorted(n for n in dir(module) if not n.startswith("_") and _belongs(getattr(module, n, None)))


def _belongs(value: Any) -> bool:
    origin = getattr(value, "__module__", "") or ""
    return (inspect.isclass(value) or callable(value)) and origin.startswith("flydsl.") and "_mlir" not in origin


def _signature(value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(...)"
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return _QUOTED.sub(r"\1\3", text)


def _text(value: Any) -> str:
    own = inspect.getdoc(value) if not inspect.isclass(value) else value.__doc__ and inspect.cleandoc(value.__doc__)
    return (own or "").strip()


def _members(cls: type) -> tuple[Entry, ...]:
    found = []
    for name, value in sorted(vars(cls).items()):
        if name.startswith("_"):
            continue
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, property):
            found.append(Entry(name, "property", "", _text(value)))
        elif inspect.isfunction(value):
            found.append(Entry(name, "method", _signature(value), _text(value)))
    return tuple(found)


def entries(module_name: str) -> list[Entry]:
    """The public classes and functions of a module."""
    module = importlib.import_module(module_name)
    found = []
    for name in public_names(module):
        value = getattr(module, name)
        if inspect.isclass(value):
            found.append(Entry(name, "class", _signature(value), _text(value), _members(value)))
        elif callable(value):
            found.append(Entry(name, "function", _signature(value), _text(value)))
    return found


def faults(module_name: str, found: list[Entry]) -> list[str]:
    """Public names without a docstring."""
    return [f"{module_name}.{e.name}: a public {e.kind} without a docstring" for e in found if not e.text]


def _sections(text: str) -> list[str]:
    """The lines of a docstring; its sections (``Args:``, ``:param x:``) as lists, for Markdown joins lines."""
    lines: list[str] = []
    section = ""
    for line in text.splitlines():
        field = _FIELD.match(line)
        heading = _FIELDS[field[1]] if field else found[1] if (found := _SECTION.match(line)) else ""
        if heading:
            if heading != section:
                lines += ["", f"**{heading}**", ""]
            section = heading
            if field:
                lines.append(f"- `{field[2]}`: {field[3]}" if field[2] else field[3])
        elif section and line.startswith("    "):
            item = _ITEM.match(line) if section in ("Args", "Attributes", "Raises") else None
            lines.append(f"- `{item[1]}`: {item[2]}" if item else f"  {line.strip()}")
        else:
            section = "" if line else section
            lines.append(line)
    return lines


def _markdown(text: str) -> str:
    """A docstring as Markdown: reStructuredText's roles and double backticks become code, doctests become blocks."""
    text = _ROLE.sub(r"`\1`", text).replace("``", "`")
    lines: list[str] = []
    inside = False
    for line in _sections(text):
        example = line.lstrip().startswith((">>>", "...")) or (inside and bool(line.strip()))
        if example and not inside:
            lines += ["", "```pycon"]
        if inside and not example:
            lines += ["```", ""]
        inside = example
        if line.endswith("::"):
            line = line[:-1]
        # An indented continuation is a block of its own in Markdown only after an empty line.
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)


def page(module_name: str, found: list[Entry]) -> str:
    """The page of a module."""
    module = importlib.import_module(module_name)
    lines = [f"# {module_name}", "", _markdown(_text(module)), ""]
    if not found:
        lines.append("This module has no public names of its own; it groups the ones below.")
    for entry in found:
        lines += [f"## {entry.name} {{ #{entry.name} }}", "", "```python",
                  f"{'class ' if entry.kind == 'class' else ''}{entry.name}{entry.signature}", "```", "",
                  _markdown(entry.text), ""]
        for member in entry.members:
            if member.text:
                lines += [f"**`{member.name}{member.signature}`**", "", _markdown(member.text), ""]
    return "\n".join(lines)
