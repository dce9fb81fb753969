"""Settings: typed, read on each access, documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from flydsl.utils import env
from flydsl.utils.logger import log


def test_defaults_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert env.compile.opt_level == 2
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "3")
    assert env.compile.opt_level == 3
    for text, value in (("1", True), ("Yes", True), ("on", True), ("0", False), ("", False)):
        monkeypatch.setenv("FLYDSL_DUMP_IR", text)
        assert env.debug.dump_ir is value


@pytest.mark.parametrize(
    ("name", "text", "manager", "attribute"),
    [
        ("FLYDSL_COMPILE_OPT_LEVEL", "4", "compile", "opt_level"),
        ("FLYDSL_COMPILE_OPT_LEVEL", "two", "compile", "opt_level"),
        ("FLYDSL_DEBUG_LOG_LEVEL", "LOUD", "debug", "log_level"),
        ("FLYDSL_DEBUG_MAX_LOC_DEPTH", "0", "debug", "max_loc_depth"),
    ],
)
def test_bad_values_name_variable_and_text(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, manager: str, attribute: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(ValueError, match=f"{name}='{text}'"):
        getattr(getattr(env, manager), attribute)


def test_odd_boolean_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_DUMP_IR", "enabled")
    with pytest.warns(UserWarning, match="taken as false"):
        assert env.debug.dump_ir is False


def test_override_wins_and_ends() -> None:
    with env.override(arch="gfx950"):
        assert env.compile.arch == "gfx950"
        rows = {row["variable"]: row for row in env.describe()}
        assert rows["ARCH"]["source"] == "override"
    assert env.compile.arch == ""
    with pytest.raises(ValueError, match="arch"):
        with env.override(archs="x"):
            pass


def test_override_of_a_name_that_two_groups_have(tmp_path: Path) -> None:
    known = env.autotune.cache_dir
    with env.override(runtime_cache_dir=tmp_path):
        assert env.runtime.cache_dir == str(tmp_path)
        assert env.autotune.cache_dir == known
    with pytest.raises(ValueError, match="runtime_cache_dir or autotune_cache_dir"), env.override(cache_dir=tmp_path):
        pass


@pytest.mark.parametrize(("name", "value", "error", "message"), [
    ("opt_level", "2", TypeError, "opt_level is int, not str"),
    ("opt_level", True, TypeError, "opt_level is int, not bool"),
    ("opt_level", 7, ValueError, "out of range"),
    ("dump_ir", 1, TypeError, "dump_ir is bool, not int"),
    ("arch", None, TypeError, "arch is str, not NoneType"),
    ("log_level", "LOUD", ValueError, "not one of DEBUG"),
])
def test_override_by_no_value_of_the_setting(name: str, value: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message), env.override(**{name: value}):
        pass


def test_misspelt_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_COMPILE_ONLY", "1")
    messages: list[str] = []
    env.warn_unknown_variables(messages.append)
    assert any("did you mean COMPILE_ONLY" in m for m in messages)


def test_a_log_file_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLYDSL_DEBUG_LOG_TO_FILE", str(tmp_path / "missing" / "log"))
    with pytest.raises(ValueError, match="FLYDSL_DEBUG_LOG_TO_FILE=.*missing/log.* cannot be written"):
        log.__wrapped__()


def test_every_setting_is_documented() -> None:
    rows = env.describe()
    assert len({row["variable"] for row in rows}) == len(rows)
    assert all(row["doc"] for row in rows)
    assert "FLYDSL_DUMP_IR" in env.debug.help()
