"""What a notebook shows of a compiled function: kernels and their resources, the traced IR, the machine code."""

from __future__ import annotations

import html
import re
from typing import Any

__all__ = ["IRText", "compiled_html"]

#: Comments, strings, SSA values, types and attributes, operations. Colours that can be read on light and on dark.
_TOKENS = re.compile(r"""(?P<comment>//[^\n]*|;[^\n]*)|(?P<string>"[^"\n]*")|(?P<value>%[\w#:.]+)"""
                     r"""|(?P<type>[!\#][\w.]+)|(?P<op>\b[a-z_]+\.[a-z_0-9.]+|^\s+[vs]_\w+|\b(?:ds|global|buffer)_\w+)""",
                     re.MULTILINE)
_COLOURS = {"comment": "#888", "string": "#3a8f5c", "value": "#b5762c", "type": "#8a6fd1", "op": "#3f85c9"}
_PRE = '<pre style="max-height:480px;overflow:auto;line-height:1.3;margin:4px 0">'


def _highlighted(text: str) -> str:
    out, at = [], 0
    for match in _TOKENS.finditer(text):
        out.append(html.escape(text[at : match.start()]))
        out.append(f'<span style="color:{_COLOURS[str(match.lastgroup)]}">{html.escape(match[0])}</span>')
        at = match.end()
    return "".join([*out, html.escape(text[at:])])


class IRText(str):
    """The text of IR or assembly, which a notebook shows with colours."""

    def _repr_html_(self) -> str:
        return f"{_PRE}{_highlighted(self)}</pre>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """In a terminal of IPython: the text itself rather than a string literal."""
        printer.text(str(self))


def _details(title: str, text: str) -> str:
    return f"<details><summary>{html.escape(title)}</summary>{IRText(text)._repr_html_()}</details>" if text else ""


def _resources(hsaco: bytes) -> str:
    """A table of registers and memory of the kernels; nothing for a function that launches none."""
    if not hsaco:
        return ""
    from flydsl.ir import kernel_resources

    rows = []
    for name, found in kernel_resources(hsaco).items():
        spilled = found.vgpr_spills + found.sgpr_spills
        numbers = (found.vgprs, found.agprs, found.sgprs, spilled, found.lds_bytes, found.scratch_bytes)
        rows.append("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in (name, *numbers)) + "</tr>")
    titles = ("kernel", "VGPRs", "AGPRs", "SGPRs", "spilled", "LDS, bytes", "scratch, bytes a lane")
    head = "".join(f"<th>{title}</th>" for title in titles)
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def compiled_html(artifact: Any) -> str:
    """The view of an artifact. Its IR and machine code are folded."""
    machine = ""
    if artifact.hsaco:
        from flydsl.ir import disassemble

        machine = disassemble(artifact.hsaco)
    title = f"<b>{html.escape(artifact.name)}</b> for {html.escape(artifact.arch)}"
    return (f"<div>{title}{_resources(artifact.hsaco)}{_details('traced IR', artifact.source_ir)}"
            f"{_details('machine code', machine)}</div>")
