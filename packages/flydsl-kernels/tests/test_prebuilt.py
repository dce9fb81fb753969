"""Prebuilt artifacts are found in other processes, only while they are of these sources, and without flydsl-ir."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from flydsl.compiler.store.prebuilt import PrebuiltFolder
from flydsl.kernels import prebuilt
from flydsl.kernels.host.models import model
from flydsl.kernels.target import current_arch

pytestmark = pytest.mark.one_arch

MODEL = model("Llama-3.2-1B")
OPERATORS = ("softmax", "rmsnorm_fwd")
# Without `REST` every process that does not find its artifacts fails: there are none in its cache.
SCRIPT = """
import sys, warnings
class NoCompiler:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("flydsl._mlir", "flydsl.ir")):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
if "bare" in sys.argv:
    sys.meta_path.insert(0, NoCompiler())
    # The files are not there either.
    import os, tempfile
    scan, empty = os.scandir, tempfile.mkdtemp()
    os.scandir = lambda path=".": scan(empty if str(path).endswith("/flydsl/ir") else path)
import numpy as np
from flydsl.kernels import ops
x = np.random.default_rng(0).standard_normal((2, 3, 2048)).astype(np.float16)
y = np.exp(x.astype(np.float64)); y /= y.sum(-1, keepdims=True)
assert np.abs(ops.softmax(x) - y).max() < 1e-4
w = np.ones(2048, np.float16)
z = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5)
assert np.abs(ops.rmsnorm(x, w) - z).max() < 4e-3
from flydsl.compiler.store.disk_cache import DiskCache
print("compiled", DiskCache().stats()["files"])
if "bare" in sys.argv:
    from flydsl.tracing.without_ir import MissingCompilerError
    try:
        ops.softmax(x[..., :100])
    except MissingCompilerError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with the prebuilt artifacts of two operators, whose samples are torch's."""
    pytest.importorskip("torch")
    root = tmp_path_factory.mktemp("prebuilt")
    prebuilt.build(root, arch(), [MODEL], OPERATORS)
    return root


def arch():
    return current_arch().split(":")[0]


def run(root, cache, *words, **variables):
    environment = {**os.environ, "FLYDSL_RUNTIME_PREBUILT_DIR": str(root), "FLYDSL_RUNTIME_CACHE_DIR": str(cache),
                   "FLYDSL_SIM_CHECK": "", **variables}
    done = subprocess.run([sys.executable, "-W", "default", "-c", SCRIPT, *words], capture_output=True, text=True,
                          timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_another_process_finds_them(root, tmp_path):
    assert "compiled 0" in run(root, tmp_path)[0]


def test_they_run_without_the_compiler(root, tmp_path):
    output, _ = run(root, tmp_path, "bare")
    assert "compiled 0" in output
    assert "flydsl-ir is not installed" in output  # what is not prebuilt


@pytest.mark.parametrize("variable", ("FLYDSL_RUNTIME_PREBUILT=0", "FLYDSL_DEBUG_ENABLE_DEBUG_INFO=1",
                                      "FLYDSL_COMPILE_OPT_LEVEL=3"))
def test_they_are_not_used_for_other_code(root, tmp_path, variable):
    name, value = variable.split("=")
    assert "compiled 2" in run(root, tmp_path, **{name: value})[0]


def test_of_other_sources_they_are_not_used_and_it_is_said(root, tmp_path):
    stale = shutil.copytree(root, tmp_path / "stale")
    index = prebuilt.folder_of(stale, arch()) / "index.json"
    content = json.loads(index.read_text())
    content["made_of"]["sources"] = "0" * 64
    index.write_text(json.dumps(content))
    output, errors = run(stale, tmp_path / "cache")
    assert "compiled 2" in output and errors.count("made from other sources") == 1
    assert prebuilt.check(stale, arch()) == [f"{index.parent}: made from other sources"]


def test_a_damaged_file_is_a_miss(root, tmp_path):
    damaged = shutil.copytree(root, tmp_path / "damaged")
    folder = PrebuiltFolder(prebuilt.folder_of(damaged, arch()))
    for path in folder.files():
        data = bytearray(path.read_bytes())
        data[-100] ^= 1
        path.write_bytes(data)
    output, errors = run(damaged, tmp_path / "cache")
    assert "compiled 2" in output and errors.count("is not used: damaged: the checksum does not match") == 2
    assert len(prebuilt.check(damaged, arch())) == len(folder.files())


def test_artifacts_that_are_no_files_are_misses(root, tmp_path):
    """Nothing waits for a writer: a FIFO is a miss with its reason, a folder and a device too."""
    strange = shutil.copytree(root, tmp_path / "strange")
    for path in PrebuiltFolder(prebuilt.folder_of(strange, arch())).files():
        path.unlink()
        os.mkfifo(path)
    output, errors = run(strange, tmp_path / "cache")
    assert "compiled 2" in output and errors.count("is no regular file") == 2


@pytest.mark.parametrize(("content", "reason"), [
    ("[" * 100_000, "nested too deep"), ('{"package": "flydsl.kernels", "made_of": []}', "is no index"),
    ('{"package": 3}', "is no index"), ("{", "cannot be read"), (None, "is no regular file")])
def test_an_index_that_is_none(root, tmp_path, content, reason):
    """Its folder is not used, which is said once; calls are compiled."""
    strange = shutil.copytree(root, tmp_path / "strange")
    index = prebuilt.folder_of(strange, arch()) / "index.json"
    index.unlink()
    os.mkfifo(index) if content is None else index.write_text(content)
    with pytest.raises((ValueError, OSError), match=reason):
        PrebuiltFolder(index.parent)
    if content in (None, "{"):
        output, errors = run(strange, tmp_path / "cache")
        assert "compiled 2" in output and errors.count(reason) == 1


def test_the_same_sources_give_the_same_files(root):
    assert prebuilt.check(root, arch()) == []
    missing = prebuilt.check(root, arch(), again=True, models=[MODEL], names=OPERATORS)
    assert missing == []
    changed = PrebuiltFolder(prebuilt.folder_of(root, arch())).files()[0]
    content = changed.read_bytes()
    changed.unlink()
    try:
        assert prebuilt.check(root, arch(), again=True, models=[MODEL], names=OPERATORS) == [
            f"{changed}: not what its sources give"]
    finally:
        changed.write_bytes(content)


def test_an_operator_that_does_not_exist(tmp_path):
    with pytest.raises(ValueError, match="no operator softmin: known are .*softmax"):
        prebuilt.build(tmp_path, arch(), [MODEL], ["softmin"])


def test_commands(root, capsys):
    from flydsl.kernels.__main__ import main

    assert main(["prebuilt", "list", "--root", str(root), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["arch"] == arch() and row["problem"] == "" and row["artifacts"] == 6
    assert main(["prebuilt", "check", "--root", str(root), "--arch", arch()]) == 0
    assert capsys.readouterr().out == "nothing is wrong\n"


def test_architectures_are_built_side_by_side(root, tmp_path, capsys):
    """In processes of their own: of this one's architecture, the files are those that this process made."""
    from flydsl.kernels.__main__ import main

    archs = [arch(), next(a for a in prebuilt.ARCHITECTURES if a != arch())]
    words = [word for name in archs for word in ("--arch", name)] + ["--op", OPERATORS[0], "--model", MODEL.name]
    assert main(["prebuilt", "build", "--root", str(tmp_path), "--jobs", "2", *words]) == 0
    assert sorted(line.split(":")[0] for line in capsys.readouterr().out.splitlines()) == sorted(archs)
    for name in archs:
        assert PrebuiltFolder(prebuilt.folder_of(tmp_path, name)).files()
    for path in PrebuiltFolder(prebuilt.folder_of(tmp_path, arch())).files():
        assert path.read_bytes() == PrebuiltFolder(prebuilt.folder_of(root, arch())).file(path.stem).read_bytes()


@pytest.mark.parametrize(("words", "message"), [
    ("build --op softmin", "no operator softmin: known are"), ("build --model Lama", "Lama"),
    ("check --model Lama --again", "Lama"), ("check --root /nowhere", "/nowhere has no prebuilt artifacts"),
    ("check --arch gfx950 --root {}", "has no prebuilt artifacts for gfx950"),
    ("list --root {}/damaged", "is no index")])
def test_commands_say_what_is_wrong(root, tmp_path, capsys, words, message):
    """In one line and with an exit status, without a traceback."""
    from flydsl.kernels.__main__ import main

    damaged = prebuilt.folder_of(tmp_path / "damaged", "gfx942")
    damaged.mkdir(parents=True)
    (damaged / "index.json").write_text("[]")
    words = words.format(tmp_path).split()
    if "--root" not in words:
        words += ["--root", str(root if words[0] == "check" else tmp_path / "made")]
    assert main(["prebuilt", *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_tune_says_what_is_wrong(capsys):
    from flydsl.kernels.__main__ import main

    assert main(["tune", "gemm", "--kind", "bf17 nt", "--size", "512x512x512"]) == 2
    assert "no search of gemm 'bf17 nt'; there is" in capsys.readouterr().err
