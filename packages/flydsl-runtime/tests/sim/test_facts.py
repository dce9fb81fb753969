"""The facts of every instruction (`OpFacts`): against LLVM's tables, and against what its mnemonic says."""

from __future__ import annotations

import ctypes
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hiplib import find_library

from flydsl.runtime.coverage import ARCHITECTURES

LIBRARY = str(find_library() or "")
SOURCES = Path(__file__).parents[2] / "sim/src"

pytestmark = pytest.mark.skipif(not LIBRARY, reason="simulator library not built")

each_arch = pytest.mark.parametrize("arch", sorted(ARCHITECTURES))


@cache
def facts(arch: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Opcode of LLVM -> mnemonic and facts."""
    found = {}
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p)

    def report(_: int, opcode: bytes, mnemonic: bytes, text: bytes) -> None:
        found[opcode.decode()] = mnemonic.decode(), json.loads(text)

    assert ctypes.CDLL(LIBRARY).flysimFacts(arch.encode(), int(ARCHITECTURES[arch]), kind(report), None) == 0
    assert len(found) > 2000
    return found


@each_arch
def test_scc_is_used_as_llvm_says(arch: str) -> None:
    scalar = [(name, f) for name, f in facts(arch).values() if f["unit"] == "salu"]
    assert any(f["reads_scc"] for _, f in scalar) and any(f["writes_scc"] for _, f in scalar)
    for name, f in scalar:
        assert (f["reads_scc"], f["writes_scc"]) == (f["llvm"]["reads_scc"], f["llvm"]["writes_scc"]), name
    branches = [(name, f) for name, f in facts(arch).values() if f["unit"] == "branch"]
    assert branches and all(f["reads_scc"] == f["llvm"]["reads_scc"] == (f["branch"] == "scc") for _, f in branches)


@each_arch
def test_memory_is_reached_as_llvm_says(arch: str) -> None:
    """Loads, stores and LDS. LLVM counts each atomic operation as both, and has cache maintenance as either."""
    for name, f in facts(arch).values():
        if f["space"] in ("", "tensor"):
            continue
        said = f["llvm"]
        assert said["loads"] == (f["load"] or f["atomic"]) or f["to_lds"], (name, f)
        assert said["stores"] == (f["store"] or f["atomic"]) or f["to_lds"], (name, f)
        assert said["lds"] == (f["space"] == "lds"), (name, f)


SIZES = {"dwordx16": 64, "dwordx8": 32, "dwordx4": 16, "dwordx3": 12, "dwordx2": 8, "dword": 4, "ubyte": 1, "sbyte": 1,
         "byte": 1, "ushort": 2, "sshort": 2, "short": 2}


def size_of(name: str) -> int | None:
    """Bytes of a plain load or store, from the last word of its name that is a size."""
    for word in reversed(name.split("_")):
        if word in SIZES:
            return SIZES[word]
        if found := re.fullmatch(r"[biu](\d+)", word):
            return int(found[1]) // 8
    return None


@each_arch
def test_names_say_the_same(arch: str) -> None:
    """Units, spaces and sizes by the first and the last words of a mnemonic, as the manuals name instructions."""
    spaces = {"global": "global", "cluster": "global", "flat": "flat", "scratch": "scratch", "buffer": "buffer",
              "tbuffer": "buffer", "tensor": "tensor"}
    for name, f in facts(arch).values():
        first = name.split("_")[0]
        if re.match(r"v_(s?mfmac?|swmmac|wmma)_", name):
            assert f["unit"] == "matrix", name
        elif first == "v":
            trans = re.match(r"v_(s_)?(exp|log|rcp|rsq|sqrt|sin|cos|tanh|prng)_", name)
            assert f["unit"] == ("trans" if trans else "valu"), name
        elif first == "ds":
            counter = "async" if "_async_" in name else "ds" if arch.startswith("gfx12") else "lgkm"
            assert f["unit"] == "lds" and f["counter"] == counter, name
        elif first in spaces and not f["prefetch"] and not re.search(r"_(inv|wb)", name):
            assert f["space"] == spaces[first], name
            assert f["unit"] == ("vmem_load" if f["load"] else "vmem_store"), name
        if f["space"] in ("global", "flat", "scratch", "scalar") and (f["load"] or f["store"]) and "block" not in name:
            assert f["bytes"] == size_of(name) or "_tr" in name, name
        assert (f["half"] != "") == (bool(f["space"]) and "d16" in name), name
        assert f["saves_exec"] == bool(re.search("saveexec|wrexec", name)), name
    waits = {name: f["waits"] for name, f in facts(arch).values() if f["unit"] == "wait" and f["waits"]}
    assert waits.pop("s_waitcnt", ["vm", "lgkm"]) == ["vm", "lgkm"]
    if not arch.startswith("gfx12"):
        assert set(waits) <= {"s_waitcnt_vscnt", "s_wait_idle"}
        return
    said = {"load": "vm", "store": "store", "ds": "ds", "km": "km", "async": "async", "tensor": "tensor"}
    for name, counters in waits.items():
        words = re.findall(r"(load|store|ds|km|async|tensor)cnt", name)
        assert set(counters) == {said[w] for w in words} or name == "s_wait_idle", name


@each_arch
def test_barriers(arch: str) -> None:
    roles = {name: f["barrier"] for name, f in facts(arch).values() if f["unit"] == "barrier"}
    if not arch.startswith("gfx12"):
        assert roles == {"s_barrier": "whole"}
        return
    assert roles["s_barrier_signal"] == roles["s_barrier_signal_isfirst"] == "signal"
    assert roles["s_barrier_wait"] == "wait"
    assert all(role == "other" for name, role in roles.items() if not re.search("signal|wait", name))


def test_only_the_table_reads_names() -> None:
    """Files that use what instructions are ask their facts. A mnemonic in them would be a second table.

    The files of the instruction table (exec/) name what they register; text in messages is for people.
    """
    mnemonic = re.compile(r'"(?:v|s|ds|global|flat|scratch|t?buffer|tensor|cluster)_[a-z0-9_]*"')
    asks = re.compile(r"(?:strstr|strn?cmp|starts|has|named)\([^;]*\b(?:name|mnemonic|texts?)\b[^;]*\"[a-z_]*[a-z]_?\"")
    found = []
    fields = re.compile(r'(?:field|key)\("\w+"')  # names of values in JSON
    for folder in ("check", "observe", "decode", "memory", "support"):
        for file in sorted((SOURCES / folder).glob("*.*")):
            for number, line in enumerate(file.read_text().splitlines(), 1):
                line = fields.sub("", line.partition("//")[0])
                if mnemonic.search(line) or asks.search(line):
                    found.append(f"{folder}/{file.name}:{number}: {line.strip()}")
    assert not found, "\n".join(found)
