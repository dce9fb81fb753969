"""What kernels recorded: the events of waves, and the spans of time that they enclose."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Event", "Wave", "spans"]


@dataclass(frozen=True)
class Event:
    """One record: ``kind`` is mark, push, pop, start or stop; ``time_ns`` counts from the clock's start.

    ``token`` is what `range_start` returned (for start and stop), else 0.
    """

    name: str
    kind: str
    time_ns: int
    payload: int | float | bool | None
    token: int


@dataclass
class Wave:
    """The events of one wave of one launch, in order. ``unit`` is (XCC, HW_ID) of the hardware."""

    kernel: str
    workgroup: tuple[int, int, int]
    wave: int
    groups: int
    unit: tuple[int, int]
    time_ns: int
    events: list[Event] = field(default_factory=list)
    launch: int = 0


def spans(wave: Wave) -> list[tuple[str, int, int, Event]]:
    """(name, start, end, event that opened it) of marks and closed ranges.

    RuntimeError for a pop without a push or a stop without its start.
    """
    where = f"{wave.kernel} work-group {wave.workgroup} wave {wave.wave}"
    found, stack, running = [], [], {}
    for event in wave.events:
        if event.kind == "mark":
            found.append((event.name, event.time_ns, event.time_ns, event))
        elif event.kind == "push":
            stack.append(event)
        elif event.kind == "start":
            running[event.token] = event
        else:
            opened = (stack.pop() if stack else None) if event.kind == "pop" else running.pop(event.token, None)
            if opened is None:
                raise RuntimeError(f"{where}: a range ends that never began")
            found.append((opened.name, opened.time_ns, event.time_ns, opened))
    if stack or running:
        name = (stack or list(running.values()))[-1].name
        raise RuntimeError(f"{where}: the range {name!r} was never closed")
    return found
