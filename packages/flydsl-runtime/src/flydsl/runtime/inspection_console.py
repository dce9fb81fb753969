"""A console for breakpoints: look at a stopped wave and step on, from the terminal.

    with rt.breakpoints(rt.Breakpoint(source="kernel.py:12", workgroup=(0, 0, 0), wave=0), call=rt.console):
        my_kernel(...)
"""

from __future__ import annotations

import cmd
import re
from typing import Any

from .disassembly import source_text
from .inspection import ABANDON, CONTINUE, STEP, WaveState

_REGISTER = re.compile(r"(?P<file>[sva])(?P<first>\d+)(?:-(?P<last>\d+))?$")


class Console(cmd.Cmd):
    """Asks what to do with one stopped wave; :attr:`answer` is what the breakpoint returns."""

    prompt = "(fly) "
    #: Source line at which a step by lines began, with its kernel, work-group and wave.
    _line_step: tuple[Any, ...] | None = None

    def __init__(self, state: WaveState, **streams: Any) -> None:
        super().__init__(**streams)
        if streams:
            self.use_rawinput = False
        self.state = state
        self.answer = CONTINUE

    def show(self) -> None:
        """The wave, its instruction and its line of source."""
        self._say(str(self.state))
        if text := source_text(self.state.source):
            self._say(f"    {text}")

    def _say(self, text: str) -> None:
        self.stdout.write(text + "\n")

    def do_step(self, line: str) -> bool:
        """step: run one instruction of this wave"""
        self.answer = STEP
        return True

    def do_next(self, line: str) -> bool:
        """next: run this wave to its next source line"""
        Console._line_step = (self.state.kernel, self.state.workgroup, self.state.wave, self.state.source)
        self.answer = STEP
        return True

    def do_continue(self, line: str) -> bool:
        """continue: run to the next breakpoint"""
        return True

    def do_quit(self, line: str) -> bool:
        """quit: abandon the launch"""
        self.answer = ABANDON
        return True

    def do_print(self, line: str) -> None:
        """print WHAT [TYPE]: s4, s4-7, v3, v3-5, a0, exec, vcc, scc, lds [OFFSET [COUNT]], or an argument by name;
        TYPE is a NumPy type such as f4, i4, f2"""
        words = line.split()
        try:
            self._say(self._text(words))
        except (IndexError, KeyError, ValueError, TypeError) as error:
            self._say(f"error: {error.args[0] if error.args else error}")

    def _text(self, words: list[str]) -> str:
        state = self.state
        if not words:
            raise ValueError("print what? s4, v3, a0, exec, vcc, scc, lds, or one of: " + ", ".join(state.arguments()))
        what, rest = words[0], words[1:]
        if what in ("exec", "vcc", "scc"):
            return f"{what} = {getattr(state, what):#x}"
        if what == "lds":
            return self._lds(rest)
        if (register := _REGISTER.match(what)) and what not in state.arguments():
            first = int(register["first"])
            rows = range(first, int(register["last"] or first) + 1)
            dtype = rest[0] if rest else "u4"
            if register["file"] == "s":
                return "\n".join(f"s{n} = {state.sgpr(n):#x}" for n in rows)
            read = state.vgpr if register["file"] == "v" else state.agpr
            return "\n".join(f"{register['file']}{n} = {read(n, dtype)}" for n in rows)
        return f"{what} = {state.argument(what)}"

    def _lds(self, words: list[str]) -> str:
        numbers = [int(w) for w in words if w.isdigit()]
        dtype = next((w for w in words if not w.isdigit()), "u4")
        offset, count = (*numbers, 0)[0], numbers[1] if len(numbers) > 1 else 16
        import numpy as np

        data = self.state.lds()[offset : offset + count * np.dtype(dtype).itemsize]
        if data.size != count * np.dtype(dtype).itemsize:
            raise ValueError(f"the LDS of the work-group has {self.state.lds().size} bytes")
        return f"lds[{offset}] = {data.view(dtype)}"

    def do_arguments(self, line: str) -> None:
        """arguments: names that print knows"""
        self._say(", ".join(self.state.arguments()) or "none")

    def do_where(self, line: str) -> None:
        """where: kernel, work-group, wave, line and instruction"""
        self.show()

    def emptyline(self) -> bool:
        return False

    def do_EOF(self, line: str) -> bool:
        return True

    do_s, do_n, do_c, do_q, do_p = do_step, do_next, do_continue, do_quit, do_print


def console(state: WaveState) -> int:
    """A ``call`` for :func:`flydsl.runtime.breakpoints` that asks at the terminal: ``help`` lists the commands."""
    stepping = Console._line_step
    if stepping is not None:
        if stepping == (state.kernel, state.workgroup, state.wave, state.source) and "s_endpgm" not in state.text:
            return STEP
        Console._line_step = None
    asked = Console(state)
    asked.show()
    asked.cmdloop()
    return asked.answer
