"""The disk cache as a whole: list, verify, clear, bound, explain; and many processes at once."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flydsl.compiler.store import toolchain
from flydsl.compiler.store.artifact import CompiledArtifact
from flydsl.compiler.store.cache import JitCacheManager
from flydsl.compiler.store.disk_cache import DiskCache


def artifact(name: str, key: str, size: int = 1000) -> CompiledArtifact:
    return CompiledArtifact(name, "gfx942", {"version": 1, "code": [["ret"]]}, b"\x7fELF" + bytes(size), key)


def fill(root: Path, count: int, size: int = 1000) -> list[Path]:
    """`count` artifacts whose last uses are a day apart, the oldest first."""
    found = []
    for i in range(count):
        manager = JitCacheManager(root, f"f{i % 3}", f"identity{i}")
        key = f"{i:032x}"[::-1]
        manager.store(key, artifact(f"f{i % 3}", key, size))
        path = manager.path(key)
        when = time.time() - (count - i) * 86400
        os.utime(path, (when, when))
        found.append(path)
    return found


def test_entries_stats_and_clear(tmp_path: Path) -> None:
    fill(tmp_path, 6)
    cache = DiskCache(tmp_path)
    assert cache.stats()["files"] == 6 and cache.stats()["bytes"] > 6000
    assert {e.name for e in cache.entries()} == {"f0", "f1", "f2"} and not any(e.problem for e in cache.entries())
    assert cache.clear("f1") == 2
    assert cache.clear() == 4
    assert cache.stats()["files"] == 0 and list(tmp_path.iterdir()) == []
    assert DiskCache(tmp_path / "missing").stats()["files"] == 0


def test_verify_names_and_removes_what_is_damaged(tmp_path: Path) -> None:
    paths = fill(tmp_path, 5)
    paths[0].write_bytes(paths[0].read_bytes()[:-10])
    data = bytearray(paths[1].read_bytes())
    data[len(data) // 2] ^= 4
    paths[1].write_bytes(data)
    paths[2].write_bytes(b"\x80\x04pickle")
    paths[3].write_bytes(paths[4].read_bytes())
    cache = DiskCache(tmp_path)
    problems = {e.path: e.problem for e in cache.verify()}
    assert set(problems) == {str(p) for p in paths[:4]}
    assert "checksum" in problems[str(paths[0])] and "checksum" in problems[str(paths[1])]
    assert "not a FlyDSL artifact" in problems[str(paths[2])] and "another key" in problems[str(paths[3])]
    cache.verify(delete=True)
    assert list(cache.files()) == [paths[4]] and cache.verify() == []


def test_a_list_reads_headers_alone(tmp_path: Path) -> None:
    """What is behind a header may be damaged, or larger than any memory: only `verify` looks at it."""
    flipped, large, short = fill(tmp_path, 3)
    data = bytearray(flipped.read_bytes())
    data[-100] ^= 4
    flipped.write_bytes(data)
    data = large.read_bytes().replace(b'"hsaco_size":1004', b'"hsaco_size":%d' % (1 << 40))
    data = data[:8] + (int.from_bytes(data[8:16], "little") + len(str(1 << 40)) - 4).to_bytes(8, "little") + data[16:]
    large.write_bytes(data)
    os.truncate(large, len(data) - 1004 + (1 << 40))
    os.truncate(short, short.stat().st_size - 10)
    cache = DiskCache(tmp_path)
    entries = {e.path: e for e in cache.entries()}
    assert [entries[str(p)].name for p in (flipped, large)] == ["f0", "f1"]
    assert [entries[str(p)].problem for p in (flipped, large)] == ["", ""]
    assert "another size" in entries[str(short)].problem
    large.unlink()
    assert {e.path for e in cache.verify()} == {str(flipped), str(short)}


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    paths = fill(tmp_path, 10, size=10_000)
    cache = DiskCache(tmp_path)
    assert cache.prune(45_000) == 6
    assert list(cache.files()) == sorted(paths[6:])
    # A load counts as a use.
    manager = JitCacheManager(tmp_path, "f0", "identity6")
    assert manager.load(f"{6:032x}"[::-1]) is not None
    cache.prune(12_000)
    assert list(cache.files()) == [paths[6]]


def test_a_folder_that_another_process_removes_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kept", "removed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.fly").write_bytes(b"")
    listed = Path.iterdir

    def removing(path: Path) -> Any:
        names = list(listed(path))
        if path == tmp_path:
            shutil.rmtree(tmp_path / "removed")
        return iter(names)

    monkeypatch.setattr(Path, "iterdir", removing)
    assert list(DiskCache(tmp_path).files()) == [tmp_path / "kept" / "x.fly"]
    assert list(DiskCache(tmp_path / "removed").files()) == []


def test_storing_keeps_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flydsl.compiler.store import cache as module

    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_SIZE_MB", "1")
    monkeypatch.setattr(module, "_PRUNE_EVERY", 1)
    monkeypatch.setattr(module, "_stores", 0)
    monkeypatch.setattr(module, "_PRUNE_EVERY", 2)
    for i in range(20):
        key = f"{i:032x}"[::-1]
        manager = JitCacheManager(tmp_path, "f", f"identity{i}")
        manager.store(key, artifact("f", key, 200_000))
        assert manager.load(key) is not None, "the file just written is never the one to go"
    assert DiskCache(tmp_path).stats()["bytes"] < 1_700_000


def test_looks_at_a_large_cache_are_rare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first store of a process looks at the whole cache, unless that is slow and was done lately."""
    from flydsl.compiler.store import cache as module

    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_SIZE_MB", "1")
    looks = []
    prune = DiskCache.prune
    monkeypatch.setattr(DiskCache, "prune", lambda cache, *a, **k: looks.append(1) or prune(cache, *a, **k))

    def first_store() -> int:
        monkeypatch.setattr(module, "_stores", 0)
        looks.clear()
        fill(tmp_path, 1)
        return len(looks)

    stamp = tmp_path / ".looked"
    assert first_store() == 1 and 0 < float(stamp.read_text()) < 10
    stamp.write_text("2.0")  # seconds that the last look took
    assert first_store() == 0
    os.utime(stamp, (time.time() - 300,) * 2)
    assert first_store() == 1
    for text in ("", "nonsense", "nan"):
        stamp.write_text(text)
        assert first_store() == 1, text
    stamp.write_text("inf")
    os.utime(stamp, (time.time() - 4000,) * 2)
    assert first_store() == 1, "never more than an hour without a look"
    DiskCache(tmp_path).clear()
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_killed_processes(tmp_path: Path) -> None:
    (path,) = fill(tmp_path, 1)
    old, new = path.parent / ".x.fly.1.tmp", path.parent / ".y.fly.2.tmp"
    orphan = path.parent / "abc.lock"
    for leftover in (old, new, orphan):
        leftover.write_text("")
    for leftover in (old, orphan):
        os.utime(leftover, (0, 0))
    DiskCache(tmp_path).prune(1 << 30)
    assert not old.exists() and not orphan.exists() and new.exists() and path.exists()


PROGRAM = """
import flydsl.compiler as flyc
import flydsl.expr as fx

BIAS = 1

@flyc.kernel
def kernel(X: fx.Tensor, c: fx.Constexpr[int]):
    X[fx.thread_idx.x] = X[fx.thread_idx.x] + fx.Float32(c + BIAS)

@flyc.jit
def run(X: fx.Tensor, c: fx.Constexpr[int], stream: fx.Stream = fx.Stream(None)):
    kernel(X, c).launch(grid=(1,), block=64, stream=stream)
"""


def test_explain(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flydsl._mlir.dialects.fly")
    monkeypatch.setenv("COMPILE_ONLY", "1")
    x = np.zeros(64, np.float32)
    module = load(PROGRAM)
    first = module.run.explain(x, 1)
    assert first.found == "" and "no artifact of run" in first.reasons[0]
    module.run(x, 1)
    assert module.run.explain(x, 1).found == "memory"
    again = load(PROGRAM)
    assert again.run.explain(x, 1).found == "disk" and "in " in str(again.run.explain(x, 1))
    assert "argument 'c' changed" in again.run.explain(x, 2).reasons[0]
    assert "argument 'X'" in again.run.explain(x.astype(np.float16), 1).reasons[0]
    module.BIAS = 7
    (reason,) = module.run.explain(x, 1).reasons
    assert "BIAS" in reason and "int:1 before, int:7 now" in reason
    monkeypatch.setenv("ARCH", "gfx950")
    assert any("architecture" in r for r in again.run.explain(x, 1).reasons)
    monkeypatch.delenv("ARCH")
    path = Path(again.run.explain(x, 1).path)
    path.write_bytes(path.read_bytes()[:-1])
    assert "checksum" in again.run.explain(x, 1).reasons[0]


# ---- many processes

WORKER = """
import sys, threading, pathlib, importlib.util
import numpy as np
spec = importlib.util.spec_from_file_location("program", sys.argv[1])
program = importlib.util.module_from_spec(spec); spec.loader.exec_module(program)
from flydsl.compiler.passes.pipeline import MlirCompiler
compiled = []
original = MlirCompiler.generate.__func__
def counting(cls, *args, **kwargs):
    compiled.append(1)
    return original(cls, *args, **kwargs)
MlirCompiler.generate = classmethod(counting)
threads_count, kernels = int(sys.argv[2]), int(sys.argv[3])
failures = []
def work(seed):
    try:
        for i in range(kernels):
            c = (i * 7 + seed * 3) % kernels
            x = np.zeros(64, np.float32)
            program.run(x, c)
            import flydsl.runtime as rt
            rt.synchronize()
            assert (x == c + 1).all(), (c, x)
    except BaseException as error:
        failures.append(repr(error))
threads = [threading.Thread(target=work, args=(i,)) for i in range(threads_count)]
[t.start() for t in threads]; [t.join() for t in threads]
if failures:
    sys.exit("; ".join(failures))
print(len(compiled))
"""


def start(program: Path, threads: int, kernels: int, root: Path, before: str = "") -> subprocess.Popen[str]:
    environment = {**os.environ, "FLYDSL_RUNTIME_CACHE_DIR": str(root), "FLYDSL_RUNTIME_KIND": "sim",
                   "FLYDSL_SIM_THREADS": "1"}
    environment.pop("COMPILE_ONLY", None)
    return subprocess.Popen([sys.executable, "-c", before + WORKER, str(program), str(threads), str(kernels)],
                            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


LONG = bool(os.environ.get("FLYDSL_TEST_LONG"))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    pytest.importorskip("flydsl._mlir.dialects.fly")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_many_processes_and_threads_compile_each_kernel_once(program: Path, tmp_path: Path) -> None:
    processes, threads, kernels = (8, 4, 20) if LONG else (3, 2, 4)
    running = [start(program, threads, kernels, tmp_path / "shared") for _ in range(processes)]
    total = 0
    for process in running:
        out, err = process.communicate(timeout=600)
        assert process.returncode == 0, err[-3000:]
        total += int(out)
    assert total == kernels
    assert DiskCache(tmp_path / "shared").stats()["files"] == kernels


def test_kill_and_damage_at_random_points(program: Path, tmp_path: Path) -> None:
    """Whatever happens to processes and files, every call that ends gives the right result."""
    root, rng = tmp_path / "shared", random.Random(7)
    rounds, kernels = (12, 20) if LONG else (2, 3)
    for _ in range(rounds):
        running = [start(program, 2, kernels, root) for _ in range(3 if LONG else 2)]
        time.sleep(rng.uniform(0.3, 2.5))
        running[0].send_signal(signal.SIGKILL)
        for path in list(root.glob("*/*.fly")):
            if rng.random() < 0.5:
                try:
                    data = bytearray(path.read_bytes())
                    if data and rng.random() < 0.5:
                        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                    else:
                        data = data[: rng.randrange(len(data) + 1)]
                    path.write_bytes(data)
                except OSError:
                    continue
        for process in running[1:]:
            _, err = process.communicate(timeout=600)
            assert process.returncode == 0, err[-3000:]
        running[0].communicate()
    for _ in range(2):
        last = start(program, 1, kernels, root)
        out, err = last.communicate(timeout=600)
        assert last.returncode == 0, err[-3000:]
    assert out.strip() == "0", "what was damaged has been replaced"


@pytest.mark.parametrize("state", ["read-only", "a file", "no directory possible"])
def test_a_cache_that_cannot_be_written(program: Path, tmp_path: Path, state: str) -> None:
    root = tmp_path / "cache"
    if state == "a file":
        root.write_text("")
    elif state == "read-only":
        root.mkdir()
        root.chmod(0o500)
        if os.access(root, os.W_OK):  # root may write anywhere
            root = Path("/proc/flydsl-cache")
    else:
        root = Path("/dev/full/cache")
    process = start(program, 1, 2, root)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0 and out.strip() == "2", err
    assert err.count("cannot be written") == 1, err


def unfinished(root: Path) -> list[str]:
    """Temporary files that somebody left."""
    return [p.name for p in root.rglob("*.tmp")]


# The limit holds while an artifact is stored, and not for the files of the linker.
LIMITED = """
import resource
from flydsl.compiler.cache import JitCacheManager
def store(self, *args, store=JitCacheManager.store):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        return store(self, *args)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
JitCacheManager.store = store
"""


def test_files_that_cannot_grow(program: Path, tmp_path: Path) -> None:
    """Each write ends in the middle with an error, as when a quota is used up; needs no privilege."""
    root = tmp_path / "cache"
    process = start(program, 1, 2, root, before=LIMITED)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0 and out.strip() == "2", err
    assert err.count("cannot be written") == 1 and os.strerror(errno.EFBIG) in err, err
    assert not list(root.glob("*/*.fly")) and not unfinished(root)
    # Once there is room, everything is stored and found.
    for compiles in ("2", "0"):
        out, err = start(program, 1, 2, root).communicate(timeout=300)
        assert out.strip() == compiles, err


def mounted(root: Path, size: str) -> list[str]:
    """A command prefix under which `root` is a file system of that size. Skips where none can be mounted."""
    script = f'mount -t tmpfs -o size={size} flydsl "$0" && exec "$@"'
    for flags in (["--mount"], ["--mount", "--map-root-user"]):
        command = ["unshare", *flags, "sh", "-c", script, str(root)]
        if shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True).returncode == 0:
            return command
    pytest.skip("no file system can be mounted here, neither as root nor in a user namespace")


def test_a_full_file_system(program: Path, tmp_path: Path) -> None:
    """Some artifacts fit and the rest do not: what is there is whole and used, what is not is compiled again."""
    root, copy, kernels = tmp_path / "cache", tmp_path / "copy", 6
    root.mkdir()
    # Room for a few artifacts of about 8 KiB; the namespace and with it the file system ends with the shell.
    runs = " && ".join(['"$0" "$@"'] * 2)
    script = f"{runs} && cp -r {root} {copy} && df --output=avail {root} | tail -1"
    environment = {**os.environ, "FLYDSL_RUNTIME_CACHE_DIR": str(root), "FLYDSL_RUNTIME_KIND": "sim"}
    done = subprocess.run(
        [*mounted(root, "48k"), "sh", "-c", script, sys.executable, "-c", WORKER, str(program), "1", str(kernels)],
        env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    first, second, left = map(int, done.stdout.split())
    assert left < 12, "the file system was not full"
    stored = len(list(copy.glob("*/*.fly")))
    assert first == kernels and 0 < stored < kernels and second == kernels - stored
    assert done.stderr.count("cannot be written") == 2 and os.strerror(errno.ENOSPC) in done.stderr, done.stderr
    assert DiskCache(copy).verify() == [] and not unfinished(copy)


@pytest.mark.parametrize("damage", [
    b"", b"[", b"[]", b"{}", b'{"stamp": "STAMP"}', b'{"stamp": "STAMP", "digests": ["ab", ""]}',
    b'{"stamp": "STAMP", "digests": [1, 2]}', b'{"stamp": "STAMP", "digests": 3}', b'{"stamp": "STAMP", "digests": []}',
    b'{"stamp": "other", "digests": ["", ""]}', b"\xff\xfe",
])
def test_a_damaged_memory_of_the_sources_is_made_again(
    damage: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path))
    found = toolchain.source_digests.__wrapped__("flydsl.layout")
    assert all(len(digest) == 64 for digest in found)
    (memo,) = tmp_path.glob("sources-*.json")
    kept = memo.read_bytes()
    memo.write_bytes(damage.replace(b"STAMP", json.loads(kept)["stamp"].encode()))
    assert toolchain.source_digests.__wrapped__("flydsl.layout") == found
    assert memo.read_bytes() == kept
