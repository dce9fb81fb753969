"""Where the declarations of operations are: the lists ``OPS`` of the modules ``op`` in this package's folders."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from types import SimpleNamespace

from flydsl.compiler.store.toolchain import source_files

from .operation import Form, Op, signature_of

__all__ = ["declarations", "operations", "table"]


@functools.cache
def declarations() -> tuple[Op | Form, ...]:
    """All of them."""
    package = __name__.rpartition(".")[0]
    source_files(package)  # now and not in an operator's first call, which asks whether prebuilt artifacts are of them
    found: list[Op | Form] = []
    for base in importlib.import_module(package).__path__:
        for folder in sorted(m.name for m in pkgutil.iter_modules([base]) if m.ispkg):
            if any(m.name == "op" for m in pkgutil.iter_modules([f"{base}/{folder}"])):
                found += importlib.import_module(f"{package}.{folder}.op").OPS
    return tuple(found)


def operations() -> SimpleNamespace:
    """Operations by name."""
    return SimpleNamespace(**{d.name: d for d in declarations() if isinstance(d, Op)})


def table() -> str:
    """The documentation's table of operators, as Markdown."""
    lines = ["| operator | computes | gradient | architectures |", "|---|---|---|---|"]
    for d in declarations():
        if isinstance(d, Op):
            where = ("those with fp8" if d.fp8 else "all") if d.archs == ("gfx",) else ", ".join(d.archs)
            arguments = ", ".join(d.signature.parameters)
            text = d.doc.strip().splitlines()[0].replace("|", "\\|")
            lines.append(f"| `{d.name}({arguments})` | {text} | {'yes' if d.gradient else 'no'} | {where} |")
        elif d.composite is not None:
            text = (d.function.__doc__ or "").strip().splitlines()[0].replace("|", "\\|")
            arguments = ", ".join(signature_of(d.composite[1]).parameters)
            lines.append(f"| `{d.composite[0]}({arguments})` | {text} | yes | of its parts |")
    return "\n".join(lines)
