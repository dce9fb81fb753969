"""Artifacts and the disk cache: nothing on disk can make a call fail or serve other code."""

from __future__ import annotations

import hashlib
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flydsl.compiler.store import cache
from flydsl.compiler.store.artifact import CompiledArtifact
from flydsl.compiler.store.cache import FileLock, JitCacheManager
from flydsl.compiler.store.root import cache_root
from flydsl.runtime.artifact import MAGIC

ARTIFACT = CompiledArtifact(
    "f", "gfx942", {"version": 1, "code": [["ret"]]}, b"\x7fELF" + bytes(100), "k" * 32, {"kernels": ["k"]}
)


def test_round_trip() -> None:
    again = CompiledArtifact.from_bytes(ARTIFACT.to_bytes(), key="k" * 32)
    assert again == ARTIFACT
    assert CompiledArtifact.from_bytes(ARTIFACT.to_bytes(), key="other") is None


@given(st.data())
def test_any_damage_is_a_miss(data: Any) -> None:
    good = ARTIFACT.to_bytes()
    position = data.draw(st.integers(0, len(good) - 1))
    if data.draw(st.booleans()):
        bad = good[:position]
    else:
        bad = good[:position] + bytes([good[position] ^ data.draw(st.integers(1, 255))]) + good[position + 1 :]
    assert CompiledArtifact.from_bytes(bad) is None


@pytest.mark.parametrize("content", [b"", b"\x80\x04\x95pickle", b"x" * 1000])
def test_foreign_file_is_a_miss(tmp_path: Path, content: bytes) -> None:
    manager = JitCacheManager(tmp_path, "f", "id")
    assert manager.store(ARTIFACT.key, ARTIFACT)
    assert manager.load(ARTIFACT.key) == ARTIFACT
    manager.path(ARTIFACT.key).write_bytes(content)
    assert manager.load(ARTIFACT.key) is None
    info = manager.info()
    assert (info.hits, info.misses, info.disk_size) == (1, 1, 1)


def test_a_deep_header_is_a_miss() -> None:
    """Under a checksum that is right: who wrote the file can compute it."""
    header = b"[" * 200_000
    body = MAGIC + len(header).to_bytes(8, "little") + header
    assert CompiledArtifact.from_bytes(body + hashlib.sha256(body).digest()) is None


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")  # never ends


def _deep(path: Path) -> None:
    path.write_text("[" * 200_000, encoding="utf-8")


def _folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [_fifo, _device, _deep, _folder])
def test_what_is_no_file_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    """Nothing in the folder blocks its reader, goes on for ever or raises."""
    from flydsl.autotune.store import WinnerCache
    from flydsl.compiler.store.cache import READS
    from flydsl.compiler.store.disk_cache import DiskCache

    manager = JitCacheManager(tmp_path, "f", "id")
    manager.directory.mkdir()
    monkeypatch.setenv("FLYDSL_AUTOTUNE_CACHE_DIR", str(tmp_path))
    for path in (manager.path(ARTIFACT.key), manager.directory / READS, WinnerCache("tuned").path):
        make(path)
    assert manager.load(ARTIFACT.key) is None
    assert manager.environment_reads() == set()
    assert all(entry.problem for entry in DiskCache(tmp_path).entries())
    assert len(WinnerCache("tuned")) == 0
    if make is not _folder:  # which cannot be replaced by a file
        assert manager.store(ARTIFACT.key, ARTIFACT, ["SOME_VARIABLE"])
        assert manager.load(ARTIFACT.key) == ARTIFACT and manager.environment_reads() == {"SOME_VARIABLE"}


def test_unwritable_root_warns_once(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    manager = JitCacheManager(blocker / "cache", "f", "id")
    with pytest.warns(UserWarning, match="FLYDSL_RUNTIME_CACHE_DIR"):
        with manager.compiling(ARTIFACT.key):
            assert not manager.store(ARTIFACT.key, ARTIFACT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not manager.store(ARTIFACT.key, ARTIFACT)
    assert manager.load(ARTIFACT.key) is None


def test_others_may_read_what_the_umask_lets_them(tmp_path: Path) -> None:
    """A cache that is filled ahead of time is used by others."""
    manager, before = JitCacheManager(tmp_path, "f", "i"), os.umask(0o027)
    try:
        assert manager.store("k" * 32, ARTIFACT, reads={"SOME"})
    finally:
        os.umask(before)
    files = [path for path in manager.directory.iterdir() if path.is_file()]
    assert len(files) == 2 and {path.stat().st_mode & 0o777 for path in files} == {0o640}


def test_a_lock_is_given_back_though_a_child_has_its_file(tmp_path: Path) -> None:
    path, (reader, writer) = tmp_path / "f.lock", os.pipe()
    with FileLock(path):
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)  # until the parent closes its end
            os._exit(0)
    try:
        with FileLock(path, timeout=0.2):
            pass
    finally:
        os.close(writer)
        os.waitpid(child, 0)
        os.close(reader)


def test_lock_timeout(tmp_path: Path) -> None:
    with FileLock(tmp_path / "x.lock"):
        with pytest.raises(RuntimeError, match="timeout"):
            with FileLock(tmp_path / "x.lock", timeout=0.01):
                pass


def test_stats_and_clear() -> None:
    root = cache_root()
    assert root is not None
    manager = JitCacheManager(root, "f", "id")
    manager.store(ARTIFACT.key, ARTIFACT)
    assert cache.stats()["files"] == 1
    assert cache.clear() == 1
    assert cache.stats()["files"] == 0
