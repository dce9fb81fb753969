"""The command ``flydsl``: output plain, rich and as JSON, and exit statuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flydsl._mlir.dialects.fly")

from flydsl.compiler.cli import main  # noqa: E402
from flydsl.compiler.cli.output import CliError, Output, size_text  # noqa: E402
from flydsl.compiler.cli.stages import without_locations  # noqa: E402
from flydsl.compiler.cli.target import parse_argument  # noqa: E402

PROGRAM = """
import sys
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel(name="scale_kernel")
def kernel(X: fx.Tensor, n: fx.Int32, c: fx.Constexpr[int]):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        X[i] = X[i] * fx.Float32(c)

@flyc.jit
def scale(X: fx.Tensor, n: fx.Int32, c: fx.Constexpr[int] = 3, stream: fx.Stream = fx.Stream(None)):
    kernel(X, n, c).launch(grid=((n + 63) // 64,), block=64, stream=stream)

def helper():
    return 1

if __name__ == "__main__":
    x = np.ones(100, np.float32)
    scale(x, 100)
    import flydsl.runtime as rt
    rt.synchronize()
    print("sum", float(x.sum()), "on", rt.device_info().arch, *sys.argv[1:])
    sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLYDSL_RUNTIME_KIND", "sim")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def flydsl(*arguments: Any, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "flydsl.compiler.cli", *map(str, arguments)],
                          env={**os.environ, **environment}, capture_output=True, text=True, timeout=300)


def test_arguments_on_the_command_line() -> None:
    array = parse_argument("f16[4,8]")
    assert array.shape == (4, 8) and str(array.dtype) == "float16"
    values = [parse_argument(t) for t in ("3", "-2.5", "true", "none", "'text'", '"x"')]
    assert values == [3, -2.5, True, None, "text", "x"]
    for wrong in ("text", "f33[2]", "f32[", "f32[a]"):
        with pytest.raises(CliError):
            parse_argument(wrong)


def test_sizes_and_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert [size_text(n) for n in (0, 1023, 1536, 5 << 20, 3 << 40)] == [
        "0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3072.0 GiB",
    ]
    Output().table(("name", "value"), [("a", 1), ("longer", 22)], "title")
    assert capsys.readouterr().out == "title\nname    value\na       1\nlonger  22\n"
    Output(json=True).table(("name",), [("a",)])
    assert capsys.readouterr().out == ""


def test_rich_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich")
    output = Output(rich=True)
    output.table(("name", "value"), [("a", "[red]1")], "title")
    output.source("%0 = arith.constant 1 : i32", "mlir")
    text = capsys.readouterr().out
    assert "┃ name ┃ value" in text and "[red]1" in text and "arith.constant" in text


def test_locations_are_taken_out() -> None:
    text = 'a loc("f(.py":1:2) b : i32 loc(callsite("g"("x":1:1) at "h":2:2))\n#loc1 = loc("x")\nc\n'
    assert without_locations(text) == "a b : i32\nc\n"


def test_wrong_command_lines(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    with pytest.raises(SystemExit) as stop:
        main(["nonsense"])
    assert stop.value.code == 2
    for arguments, why in (
        (["compile", "missing.py"], "no file missing.py"),
        (["compile", f"{program}:helper"], "no jit function 'helper'; it has: scale"),
        (["bench", str(program)], "FILE.py:FUNCTION"),
        (["cache", "explain", "zzzz"], "0 artifacts have a key"),
        (["cache", "list", "--dir", str(program)], "is no folder"),
        (["cache", "prune", "-5"], "at least 0 MiB"),
        (["run", "--trace", "/nothing/trace.json", str(program)], "no folder /nothing"),
    ):
        assert main(arguments) == 2
        assert why in capsys.readouterr().err


def test_architectures_and_checks_are_named_before_anything_runs(program: Path,
                                                                 capsys: pytest.CaptureFixture[str]) -> None:
    known = "unknown architecture 'gfxxx'; known: gfx90a, gfx942"
    for arguments, why in (
        *(([command, "--arch", "gfxxx", str(program)], known) for command in ("run", "compile", "ir", "asm", "bench")),
        (["compile", "--arch", "gfx942,gfxxx", str(program)], known),
        (["cache", "explain", "--arch", "gfxxx", f"{program}:scale"], known),
        (["run", "--check", "race,foo", str(program)], "unknown check 'foo'; there are oob, race"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        streams = capsys.readouterr()
        assert stop.value.code == 2 and why in streams.err and not streams.out, arguments


def test_files_that_are_wrong(tmp_path: Path, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Errors are as Python prints them, without the frames of the command, and the status says so."""
    open_bracket, division = tmp_path / "bracket.py", tmp_path / "division.py"
    open_bracket.write_text("x = (\n")
    division.write_text("def f():\n    return 1 / 0\n\nf()\n")
    for path, why in ((open_bracket, "SyntaxError"), (division, "ZeroDivisionError")):
        for target in (["run", str(path)], ["compile", str(path)], ["compile", f"{path}:f"], ["ir", str(path)]):
            assert main(target) == 1
            text = capsys.readouterr().err
            assert why in text and "cli/" not in text and "runpy" not in text, text
    for command in (["compile"], ["cache", "explain"]):
        assert main([*command, f"{program}:scale"]) == 1
        assert "scale does not compile: TypeError: scale(): missing a required argument" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert re.search(r"^flydsl-compiler \d+\.\d+\.\d+$", capsys.readouterr().out, re.MULTILINE)


def test_compile_cache_and_explain(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, file = f"{program}:scale", tmp_path / "scale.fly"
    arguments = ["--arg", "f32[100]", "--arg", "n=100"]
    assert main(["cache", "explain", target, *arguments]) == 1
    assert "scale: would be compiled" in capsys.readouterr().out
    assert main(["compile", target, *arguments, "-o", str(file)]) == 0
    out = capsys.readouterr().out
    assert re.match(r"scale for gfx942: scale_kernel, [\d.]+ KiB \(.*trace.*passes|.*codegen", out) and str(file) in out
    assert main(["compile", target, *arguments, "--arch", "gfx942,gfx950", "--json"]) == 0
    assert [row["arch"] for row in json.loads(capsys.readouterr().out)] == ["gfx942", "gfx950"]
    assert main(["cache", "explain", target, *arguments]) == 0
    assert "scale: in " in capsys.readouterr().out
    assert main(["cache", "explain", target, *arguments, "--arg", "c=4", "--json"]) == 1
    explanation = json.loads(capsys.readouterr().out)
    assert explanation["found"] == "" and "argument 'c' changed" in explanation["reasons"][0]
    assert main(["cache", "explain", str(file)]) == 0
    assert "arguments" in capsys.readouterr().out
    assert main(["cache", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["function", "arch", "size", "last", "use", "kernels", "key"] and len(lines) == 3
    assert {line.split()[1] for line in lines[1:]} == {"gfx942", "gfx950"}
    assert main(["cache", "stats", "--json"]) == 0
    stats = json.loads(capsys.readouterr().out)
    assert stats["files"] == 2
    victim = next(Path(stats["root"]).glob("*/*.fly"))
    victim.write_bytes(victim.read_bytes()[:-1])
    assert main(["cache", "verify"]) == 1
    assert "damaged: the checksum does not match\n2 artifacts, 1 damaged" in capsys.readouterr().out
    assert main(["cache", "verify", "--delete"]) == 0
    assert main(["cache", "verify"]) == 0
    assert main(["cache", "clear", "other"]) == 0 and main(["cache", "clear"]) == 0
    assert capsys.readouterr().out.endswith("0 artifacts deleted\n1 artifacts deleted\n")
    assert main(["compile", target, "--arg", "f32[100]"]) == 1
    assert "scale does not compile: TypeError" in capsys.readouterr().err


def test_ir_and_asm(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, arguments = f"{program}:scale", ["--arg", "f32[100]", "--arg", "100"]
    assert main(["ir", target, *arguments, "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "scale_kernel" and lines[2].split()[:2] == ["00", "origin"]
    assert lines[-2].split()[1] == "llvm_ir" and lines[-1].split()[1] == "final_isa"
    assert main(["ir", target, *arguments, "--stage", "0"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("// ---- scale_kernel 00_origin") and "gpu.func @scale_kernel" in out and "loc(" not in out
    assert main(["ir", target, *arguments, "--stage", "layout_lowering", "--diff", "--json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)
    assert kernel["stages"][0]["text"].startswith(("---", "03_fly_layout_lowering changes nothing"))
    assert main(["ir", target, *arguments, "--stage", "nothing"]) == 2
    assert main(["asm", target, *arguments, "--arch", "gfx950"]) == 0
    out = capsys.readouterr().out
    assert "gfx950" in out and "s_endpgm" in out
    assert main(["asm", target, *arguments, "--kernel", "zzz"]) == 1


def test_asm_of_a_script_that_is_wrong(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What compiled is shown, and the error as it is outside of the command: without internal frames."""
    body = PROGRAM.replace("c: fx.Constexpr[int] = 3", "c: fx.Constexpr[int] = 4")
    program.write_text(body.replace("    print(", "    wrong(x, 100)\n    print(").replace("def helper", """@flyc.kernel
def wrong_kernel(X: fx.Tensor, n: fx.Int32):
    if fx.thread_idx.x < n:
        value = fx.Float32(1)
    X[fx.thread_idx.x] = value

@flyc.jit
def wrong(X: fx.Tensor, n: fx.Int32):
    wrong_kernel(X, n).launch(grid=(1,), block=64)

def helper"""), encoding="utf-8")
    assert main(["asm", str(program)]) == 0
    streams = capsys.readouterr()
    assert "s_endpgm" in streams.out and f"{program} ended with status 1" in streams.err
    assert "DSLNameError: name 'value' is not defined here" in streams.err and "wrong(x, 100)" in streams.err
    assert "jit_function.py" not in streams.err and "kernel_function.py" not in streams.err


def test_run_passes_status_arguments_and_settings(program: Path) -> None:
    result = flydsl("run", "--arch", "gfx950", "--timing", program)
    assert result.returncode == 0 and result.stdout == "sum 300.0 on gfx950\n"
    assert re.search(r"\[flydsl.compile\] scale for gfx950: .*trace [\d.]+ ms.*codegen.*llvm.*link", result.stderr)
    assert re.search(r"\[flydsl.compile\] scale for gfx950: load [\d.]+ ms", result.stderr)
    result = flydsl("run", program, 7, "--stats")
    assert result.returncode == 7 and "7 --stats" in result.stdout
    program.write_text("raise ValueError('broken')", encoding="utf-8")
    result = flydsl("run", program)
    assert result.returncode == 1 and "ValueError: broken" in result.stderr
    program.write_text("import sys; sys.exit('message')", encoding="utf-8")
    result = flydsl("run", program)
    assert result.returncode == 1 and "message" in result.stderr


def test_a_script_compiles_into_the_cache(program: Path) -> None:
    result = flydsl("compile", program, "--arch", "gfx950")
    assert "1 artifacts compiled" in result.stdout and "gfx950" in result.stdout
    assert "scale_kernel" in flydsl("cache", "list").stdout
    result = flydsl("compile", program, "--arch", "gfx950")
    assert "0 artifacts compiled: no jit function was called, or all were in the cache" in result.stdout


def test_bench(program: Path) -> None:
    result = flydsl("bench", f"{program}:scale", "--arg", "f32[100]", "--arg", 100, "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["function"] == "scale" and found["milliseconds"] > 0
    assert found["estimate"] is True and found["timer"]


def test_doctor(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    result = flydsl("doctor", "--json", FLYDSL_RUNTIME_KIND="sim", FLYDSL_RUNTIME_CACHE_DIR=cache)
    facts = json.loads(result.stdout)
    assert result.returncode == 0 and facts["problems"] == [], facts["problems"]
    assert facts["device"]["kind"] == "sim" and facts["packages"]["flydsl-runtime"]
    assert facts["libraries"]["LLVM"].startswith("22.") and facts["cache"]["root"] == cache
    plain = flydsl("doctor", FLYDSL_RUNTIME_KIND="sim", FLYDSL_RUNTIME_CACHE_DIR=cache)
    assert plain.stdout.startswith("packages\nwhat") and plain.stdout.endswith("no problems found\n")
    wrong = flydsl("doctor", FLYDSL_RUNTIME_KIND="gpu", FLYDSL_RUNTIME_CACHE_DIR="/proc/nothing", ARCH="gfx1",
                   FLYDSL_DUMP_IRR="1", FLYDSL_COMPILE_OPT_LEVEL="9")
    assert wrong.returncode == 1
    for text in ("Unknown FLYDSL_RUNTIME_KIND 'gpu'", "unknown architecture 'gfx1'", "cannot be written",
                 "did you mean FLYDSL_DUMP_IR?", "FLYDSL_COMPILE_OPT_LEVEL='9' is out of range"):
        assert text in wrong.stdout, wrong.stdout
    assert wrong.stdout.count("    ") >= 5  # each with its remedy


def metadata(folder: Path, name: str, version: str, *requirements: str) -> Path:
    """A folder that, in front of the path, makes a distribution look installed in that version."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    (info / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {r}" for r in requirements)]) + "\n")
    return folder


def test_doctor_finds_wrong_pins_and_values(tmp_path: Path) -> None:
    folder = metadata(tmp_path / "site", "flydsl-compiler", "0.1.0", "flydsl-ir==9.9.9", "numpy; extra == 'x'")
    path = os.pathsep.join([str(folder), *sys.path])
    result = flydsl("doctor", "--json", PYTHONPATH=path, FLYDSL_RUNTIME_KIND="sim", FLYDSL_DUMP_IR="enabled",
                    FLYDSL_RUNTIME_CACHE_DIR=str(tmp_path / "cache"))
    assert result.returncode == 1 and result.stderr == ""
    problems = {p["what"]: p["remedy"] for p in json.loads(result.stdout)["problems"]}
    wrong = next(w for w in problems if w.startswith("flydsl-compiler needs flydsl-ir 9.9.9, found "))
    assert problems[wrong] == "pip install flydsl-ir==9.9.9"
    assert any("FLYDSL_DUMP_IR='enabled' is taken as false" in what for what in problems) and len(problems) == 2


def broken(missing: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The installed command in a process where a module cannot be imported."""
    code = f"import sys; sys.modules[{missing!r}] = None; from flydsl.command import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    "missing, package",
    [("flydsl.runtime._native", "flydsl-runtime"), ("flydsl._mlir", "flydsl-ir"), ("flydsl.layout", "flydsl-layout")],
)
def test_doctor_without_a_part_of_the_stack(missing: str, package: str) -> None:
    result = broken(missing, "doctor")
    assert result.returncode == 1 and "Traceback" not in result.stderr, result.stderr
    assert f"{package} cannot be imported" in result.stdout or f"{package} is not installed" in result.stdout
    assert "pip install" in result.stdout
    facts = json.loads(broken(missing, "doctor", "--json").stdout)
    assert facts["problems"]


def test_other_commands_without_the_runtime() -> None:
    result = broken("flydsl.runtime._native", "cache", "list")
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr.startswith("flydsl: the installation is broken") and result.stderr.count("\n") == 1
