"""Running a script for a command, as ``python SCRIPT`` would."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

__all__ = ["main_file", "run_script", "show_error"]


def main_file(path: Path) -> Path:
    """The file that ``python PATH`` runs: a folder's is its ``__main__.py``. FileNotFoundError if there is none."""
    main = path / "__main__.py" if path.is_dir() else path
    if not main.is_file():
        raise FileNotFoundError(f"there is no file {main}")
    return main


def show_error(error: Exception, path: Path) -> None:
    """Print an exception of a file as Python does, without the frames of the command that runs it."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != str(path):
        frames = frames.tb_next
    sys.excepthook(type(error), error.with_traceback(frames), frames)


def run_script(path: Path, arguments: list[str]) -> int:
    """Run a script, or a folder with a ``__main__.py``; its exit status, 1 for an exception, which is printed."""
    main = main_file(path)
    saved_argv, saved_path = sys.argv, list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(main.resolve().parent))
    try:
        runpy.run_path(str(main), run_name="__main__")
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    except Exception as error:
        show_error(error, main)
        return 1
    finally:
        sys.argv, sys.path[:] = saved_argv, saved_path
    return 0
