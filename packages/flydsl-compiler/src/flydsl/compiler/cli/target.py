"""What a command works on: a script, or a jit function in a file with placeholder arguments."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flydsl.runtime.scripts import main_file, run_script, show_error

from .output import CliError

__all__ = ["add_arguments", "architecture", "load_function", "parse_argument", "run_script", "split_target",
           "variables"]

_TENSOR = re.compile(r"([A-Za-z]\w*)\[([\d\s,]+)\]")
_DTYPES = {
    "f16": "float16", "f32": "float32", "f64": "float64", "i8": "int8", "i16": "int16", "i32": "int32",
    "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "i1": "bool",
}
_TORCH_ONLY = {"bf16": "bfloat16", "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2",
               "f8E4M3FNUZ": "float8_e4m3fnuz", "f8E5M2FNUZ": "float8_e5m2fnuz"}


def architecture(text: str) -> str:
    """An ``--arch``: one that the backend compiles for, or nothing. ArgumentTypeError names those."""
    from flydsl.compiler.backends import get_backend

    try:
        if text:
            get_backend(arch=text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def architectures(text: str) -> str:
    """A list of them with commas."""
    return ",".join(map(architecture, text.split(",")))


def add_arguments(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """The arguments that name a target; the architectures may be `several`."""
    parser.add_argument("target", help="SCRIPT.py, or FILE.py:FUNCTION with an --arg for each parameter")
    parser.add_argument(
        "--arg", action="append", default=[], metavar="[NAME=]VALUE",
        help="argument of FUNCTION: f32[128,64] (a tensor), 3, 2.5, true, 'text', none",
    )
    parser.add_argument("--arch", default="", type=architectures if several else architecture,
                        help="architecture to compile for, and to simulate" + (", or several with commas" * several))
    parser.add_argument("--json", action="store_true", help="print as JSON")


def split_target(target: str) -> tuple[Path, str]:
    """(file, function name or ""). CliError if there is no such file."""
    path, _, name = target.partition(":") if not Path(target).exists() else (target, "", "")
    try:
        main = main_file(Path(path))
    except FileNotFoundError as error:
        raise CliError(str(error), 2) from None
    return main if name else Path(path), name


def parse_argument(text: str) -> Any:
    """The value of an ``--arg``: a placeholder tensor or a Python number, bool, string or None."""
    match = _TENSOR.fullmatch(text.strip())
    if match:
        shape = tuple(int(s) for s in match.group(2).split(",") if s.strip())
        return _placeholder(match.group(1), shape)
    word = text.strip()
    named = {"true": True, "false": False, "none": None}
    if word.lower() in named:
        return named[word.lower()]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(word)
    if len(word) >= 2 and word[0] == word[-1] and word[0] in "'\"":
        return word[1:-1]
    raise CliError(f"cannot read the argument {text!r}: write f32[128,64], 3, 2.5, true, none or 'text'", 2)


def _placeholder(dtype: str, shape: tuple[int, ...]) -> Any:
    """Zeros of a dtype; pages that nothing touches cost no memory."""
    if dtype in _DTYPES:
        import numpy

        return numpy.zeros(shape, _DTYPES[dtype])
    if dtype in _TORCH_ONLY:
        try:
            import torch
        except ImportError:
            raise CliError(f"tensors of {dtype} need torch", 2) from None
        return torch.zeros(shape, dtype=getattr(torch, _TORCH_ONLY[dtype]))
    raise CliError(f"unknown element type {dtype!r}; known: {', '.join([*_DTYPES, *_TORCH_ONLY])}", 2)


def load_function(path: Path, name: str, arguments: list[str]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """(jit function, positional and keyword arguments) of a target with a function."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        show_error(error, path)
        raise CliError(f"{path} cannot be imported: {type(error).__name__}") from None
    function: Any = module
    for part in name.split("."):
        function = getattr(function, part, None)
    if function is None or not hasattr(function, "resolve_call"):
        names = [n for n, v in vars(module).items() if hasattr(v, "resolve_call")]
        raise CliError(f"{path} has no jit function {name!r}; it has: {', '.join(names) or 'none'}", 2)
    positional, keywords = [], {}
    for text in arguments:
        head, equals, rest = text.partition("=")
        if equals and head.isidentifier():
            keywords[head] = parse_argument(rest)
        else:
            positional.append(parse_argument(text))
    return function, tuple(positional), keywords


@contextlib.contextmanager
def variables(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables for the block; empty values leave what is there."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update({name: value for name, value in values.items() if value})
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = old
