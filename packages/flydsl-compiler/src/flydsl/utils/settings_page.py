"""The page of environment variables, generated from the settings object: ``python -m flydsl.utils.settings_page``."""

from __future__ import annotations

import sys
from typing import Any

from . import env

__all__ = ["page"]

_HEADER = """# Settings

Every setting is an environment variable, read when it is used. `flydsl.utils.env` is the same table in Python:
`env.debug.dump_ir` reads one, `with env.override(dump_ir=True):` sets one for a block, and `env.describe()` says
where each value came from; a name that two groups have takes its group in front (`runtime_cache_dir`).
Booleans are `1`, `true`, `yes`, `on`; anything else that is not a known spelling of
false is reported. This page is generated from the settings object.

"""


def _shown(value: Any) -> str:
    if value in ("", [], None):
        return ""
    return f"`{value}`" if not isinstance(value, bool) else ("on" if value else "off")


def _default(option: env.Option) -> str:
    return option.shown_default if callable(option.default) else _shown(option.default)


def page() -> str:
    """The text of docs/language/settings.md."""
    out = _HEADER
    for manager in env.managers:
        out += f"## {manager.group}\n\n| variable | type | default | meaning |\n|---|---|---|---|\n"
        for option in manager.options.values():
            kind = option.kind.__name__
            if option.choices:
                kind = " / ".join(option.choices)
            out += f"| `{option.var}` | {kind} | {_default(option)} | {option.doc} |\n"
        out += "\n"
    return out.rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
