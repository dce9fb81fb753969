"""The set-up scripts: a step is skipped when nothing changed, and a step that cannot work says why and what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import workspace

pytestmark = pytest.mark.one_arch


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A workspace of its own, so that nothing of the real one is touched."""
    for name, value in {"ROOT": tmp_path, "VENV": tmp_path / ".venv", "STAMPS": tmp_path / ".venv" / "stamps",
                        "LOGS": tmp_path / "logs", "WHEELS": tmp_path / "wheels"}.items():
        monkeypatch.setattr(workspace, name, value)
    return tmp_path


def test_fingerprint_follows_names_and_contents(tree):
    source = tree / "package" / "a.cpp"
    source.parent.mkdir()
    source.write_text("int a;")
    first = workspace.fingerprint(tree / "package")
    assert workspace.fingerprint(tree / "package") == first
    source.write_text("int b;")
    changed = workspace.fingerprint(tree / "package")
    source.rename(source.with_name("b.cpp"))
    renamed = workspace.fingerprint(tree / "package")
    assert len({first, changed, renamed}) == 3


@pytest.mark.parametrize("folder", ["build", "tests", "__pycache__", ".tox"])
def test_fingerprint_leaves_products_and_tests_out(tree, folder):
    (tree / "package" / folder).mkdir(parents=True)
    first = workspace.fingerprint(tree / "package")
    (tree / "package" / folder / "x").write_text("1")
    assert workspace.fingerprint(tree / "package") == first


def test_a_step_runs_once_and_again_when_its_input_changes(tree, monkeypatch, capsys):
    source, runs = tree / "input", []
    source.write_text("1")
    step = workspace.Step("a step", lambda: workspace.fingerprint(source), lambda: runs.append(1))
    monkeypatch.setattr(workspace, "steps", lambda *_: [step])
    monkeypatch.setattr(workspace, "check_system", lambda: None)
    workspace.prepare()
    workspace.prepare()
    assert len(runs) == 1 and "up to date" in capsys.readouterr().out
    source.write_text("2")
    workspace.prepare()
    assert len(runs) == 2


def test_a_failed_step_is_not_recorded(tree, monkeypatch):
    def fail():
        raise workspace.SetupError("no")

    step = workspace.Step("a step", lambda: "key", fail)
    monkeypatch.setattr(workspace, "steps", lambda *_: [step])
    monkeypatch.setattr(workspace, "check_system", lambda: None)
    for _ in range(2):
        with pytest.raises(workspace.SetupError, match="no"):
            workspace.prepare()


def test_a_failed_command_shows_its_output_and_the_hint(tree):
    command = [sys.executable, "-c", "print('cannot reach the index'); raise SystemExit(3)"]
    with pytest.raises(workspace.SetupError) as caught:
        workspace.run_logged("try", command, "No network?")
    text = str(caught.value)
    assert "exit 3" in text and "cannot reach the index" in text and "No network?" in text and "logs/try.log" in text


def test_other_systems_are_refused_with_the_way_to_go(monkeypatch):
    monkeypatch.setattr(workspace.shutil, "which", lambda name: None)
    with pytest.raises(workspace.SetupError, match="Debian 12"):
        workspace.check_system()


def test_too_little_disk_is_said_in_gib(tree, monkeypatch):
    monkeypatch.setattr(workspace.shutil, "which", lambda name: "/usr/bin/apt-get")
    usage = type("Usage", (), {"free": 2 * 2**30})()
    monkeypatch.setattr(workspace.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(workspace.SetupError, match=r"2\.0 GiB free .* 6 GiB needed"):
        workspace.check_system()


def test_without_root_and_sudo_the_command_to_run_is_shown(monkeypatch):
    monkeypatch.setattr(workspace, "missing_apt_packages", lambda _wanted: ["llvm-22-dev"])
    monkeypatch.setattr(workspace.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(workspace.shutil, "which", lambda name: None)
    with pytest.raises(workspace.SetupError, match="As root: apt-get install .* llvm-22-dev"):
        workspace.install_apt()


def test_an_error_becomes_a_message_and_a_status(capsys):
    def fail() -> int:
        raise workspace.SetupError("2.0 GiB free")

    assert workspace.guarded(fail) == 1
    assert "error: 2.0 GiB free" in capsys.readouterr().err


def test_child_processes_import_from_the_venv_alone(tree, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    env = workspace.environment()
    assert "PYTHONPATH" not in env and env["PATH"].startswith(f"{tree / '.venv' / 'bin'}:")


def test_child_processes_keep_byte_code(monkeypatch):
    """Each would compile the editable packages again, which takes longer than all else that an import does."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    told = "import sys; print(sys.dont_write_bytecode)"
    done = subprocess.run([sys.executable, "-c", told], env=workspace.environment(), capture_output=True, text=True)
    assert done.stdout == "False\n"


def test_pip_of_debian_12_knows_every_option(tree, monkeypatch):
    """Its venv has pip 23.0.1: no option of later releases, such as the short -C, may be used."""
    options = set()

    def record(name, *arguments):
        options.update(a for a in arguments if a.startswith("-"))
        if "-w" in arguments:
            folder = Path(arguments[arguments.index("-w") + 1])
            folder.mkdir(parents=True)
            (folder / "a.whl").touch()

    monkeypatch.setattr(workspace, "pip", record)
    monkeypatch.setattr(workspace, "run_logged", lambda *_: None)
    workspace.make_venv()
    workspace.install_native("flydsl-ir")
    workspace.install_pure()
    assert options == {"-r", "-w", "-e", "--no-deps", "--no-build-isolation", "--config-settings", "--force-reinstall"}
