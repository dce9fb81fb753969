"""Files of winners that are shipped with a program: written by a search, used without one."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_times import Calls, tuned

from flydsl.autotune import Config


@pytest.fixture
def artifacts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("FLYDSL_AUTOTUNE_CONFIG_DIR", str(tmp_path / "shipped"))
    return tmp_path / "shipped"


def make_artifact(monkeypatch: pytest.MonkeyPatch, folder: Path, **options: Any) -> Path:
    with pytest.MonkeyPatch.context() as context:
        context.setenv("FLYDSL_AUTOTUNE", "1")
        tuned([], artifact_name="add.one", **options)(np.zeros(4), n=5)
    (path,) = folder.glob("*.json")
    return path


def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **kwargs: Any) -> tuple[Any, list[str], Calls]:
    """Result, warnings and calls of a process that has the artifact and no winners."""
    monkeypatch.setenv("FLYDSL_AUTOTUNE_CACHE_DIR", str(tmp_path / f"fresh{len(list(tmp_path.iterdir()))}"))
    calls: Calls = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = tuned(calls, artifact_name="add.one")(np.zeros(4), **{"n": 5, **kwargs})
    return result, [str(w.message) for w in caught], calls


def test_artifact_is_written_and_used(monkeypatch: pytest.MonkeyPatch, artifacts: Path, tmp_path: Path) -> None:
    path = make_artifact(monkeypatch, artifacts)
    data = json.loads(path.read_text())
    assert path.name.startswith("add.one-") and path.read_text().endswith("}\n")
    assert data["version"] == 1 and data["identity"]["name"] == "add.one" and data["identity"]["key"] == {"n": 5}
    assert set(data["identity"]["device"]) == {"name", "arch", "compute_units"}
    assert data["config"]["kwargs"] == {"tile": 2}
    result, messages, calls = use(monkeypatch, tmp_path)
    assert result == "tile 2" and messages == [] and len(calls) == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: d.update(version=2), "version 2"),
        (lambda d: d["identity"].update(name="other"), "another identity"),
        (lambda d: d.update(config=[1]), "no object"),
        (lambda d: d["config"]["kwargs"].update(banana=1), "unknown parameter 'banana'"),
        (lambda d: d["config"]["kwargs"].update(x=1), "override the argument 'x'"),
        (lambda d: d["config"]["kwargs"].update(n=1), "override the argument 'n'"),
        (lambda d: d["config"]["kwargs"].update(tile="big"), "'tile' is int"),
        (lambda d: d["config"].update(waves_per_eu="2"), "waves_per_eu is no int"),
        (lambda d: d["config"].update(turbo=2), "unknown compiler option"),
    ],
)
def test_unfit_artifacts_are_ignored_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, artifacts: Path, tmp_path: Path, change: Any, why: str
) -> None:
    path = make_artifact(monkeypatch, artifacts)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    result, messages, calls = use(monkeypatch, tmp_path)
    assert result == "tile 2" and len(calls) == 5
    assert any(why in m and "ignored" in m for m in messages), messages


def test_corrupt_and_missing_artifacts(monkeypatch: pytest.MonkeyPatch, artifacts: Path, tmp_path: Path) -> None:
    make_artifact(monkeypatch, artifacts).write_text("{")
    assert any("cannot be read" in m for m in use(monkeypatch, tmp_path)[1])
    assert any("does not exist" in m for m in use(monkeypatch, tmp_path, n=6)[1])


def test_artifact_names_and_what_cannot_be_shipped(monkeypatch: pytest.MonkeyPatch, artifacts: Path) -> None:
    for name in ("", "a/b", "ü", "x" * 65):
        with pytest.raises(ValueError, match="artifact_name"):
            tuned([], artifact_name=name)
    with pytest.raises(TypeError, match="artifact_name"):
        tuned([], artifact_name=3)
    for keys in (["n", "n"], ["nothing"]):
        with pytest.raises(ValueError, match="artifact keys"):
            tuned([], artifact_name="a", key=keys)
    monkeypatch.setenv("FLYDSL_AUTOTUNE", "1")
    hook = Config(tile=1, pre_hook=lambda kwargs: None)
    for config, why in ((hook, "pre_hook"), (Config(tile=(1, 2)), "preserve their types")):
        function = tuned([], artifact_name="a", configs=[config], do_bench=lambda call, warmup, rep: call() and 1 or 1)
        with pytest.raises(ValueError, match=why):
            function(np.zeros(1), n=5)
        assert not function.cache.path.exists() and not list(artifacts.glob("*"))
