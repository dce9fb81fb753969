"""Settings: typed, read on each access, documented."""

from __future__ import annotations

import pytest

from flydsl.utils import env


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


def test_misspelt_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYDSL_COMPILE_ONLY", "1")
    messages: list[str] = []
    env.warn_unknown_variables(messages.append)
    assert any("did you mean COMPILE_ONLY" in m for m in messages)


def test_every_setting_is_documented() -> None:
    rows = env.describe()
    assert len({row["variable"] for row in rows}) == len(rows)
    assert all(row["doc"] for row in rows)
    assert "FLYDSL_DUMP_IR" in env.debug.help()
