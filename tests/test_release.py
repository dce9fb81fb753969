"""The tools of a release: what they refuse, and what they write."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import build_docs
import public_names
import release
import site_api
import site_check
import wheels

pytestmark = pytest.mark.one_arch
ROOT = Path(__file__).resolve().parent.parent

# --- public names ---------------------------------------------------------------------------------------------------


def test_lists_are_current():
    pytest.importorskip("torch")  # some modules are its own
    for package in site_api.MODULES:
        folder = ROOT / "packages" / package
        names = public_names.listed(folder / "public-names.txt")
        version = public_names.versions.version_of(folder)
        assert not public_names.differences(package, names, public_names.present(package), version)


@pytest.mark.parametrize("since, version, free", [
    (None, "1.4.0", False), ("1.4", "1.4.2", False), ("1.3", "1.4.0", True), ("1.9", "1.10.0", True),
])
def test_a_name_goes_only_after_a_minor_release_of_deprecation(tmp_path, since, version, free):
    path = tmp_path / "public-names.txt"
    kept = public_names.write("p", path, {"flydsl.old": since, "flydsl.kept": None}, {"flydsl.kept"}, version)
    assert bool(kept) is not free
    assert ("flydsl.old" in public_names.listed(path)) is not free
    found = public_names.differences("p", {"flydsl.old": since}, {"flydsl.new"}, version)
    assert len(found) == 2 and "flydsl.new is public and not listed" in found[0]


def test_a_public_name_without_a_docstring_is_a_fault(tmp_path, monkeypatch):
    (tmp_path / "sample_of_api.py").write_text(
        '"""Sample."""\n__all__ = ["told", "untold"]\n\n\ndef told() -> int:\n    """Say :func:`it`."""\n\n\n'
        "def untold() -> None: ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = site_api.entries("sample_of_api")
    assert site_api.faults("sample_of_api", found) == ["sample_of_api.untold: a public function without a docstring"]
    page = site_api.page("sample_of_api", found)
    assert "told() -> " in page and "Say `it`." in page


SECTIONS = '''
"""Sample."""

__all__ = ["fields", "google"]


def google(a: "int", b: "str" = "x") -> "int":
    """Both.

    Args:
        a, b: numbers,
            or not.

    Returns:
        One.

    Raises:
        TypeError: else.
    """


def fields(a):
    """One.

    :param a: it
    :raises ValueError: else
    """
'''


def test_sections_of_a_docstring_are_lists(tmp_path, monkeypatch):
    (tmp_path / "sample_of_sections.py").write_text(SECTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    page = site_api.page("sample_of_sections", site_api.entries("sample_of_sections"))
    page = re.sub(r"\n+", "\n", page)
    assert "google(a: int, b: str = 'x') -> int" in page
    assert "**Args**\n- `a, b`: numbers,\n  or not.\n**Returns**\n  One.\n**Raises**\n- `TypeError`: else." in page
    assert "**Args**\n- `a`: it\n**Raises**\n- `ValueError`: else" in page


def test_type_checkers_see_the_public_packages():
    """`flydsl` itself is a namespace, so that each of its packages states that it has types."""
    for package in {module.split(".")[1] for modules in site_api.MODULES.values() for module in modules}:
        (source,) = ROOT.glob(f"packages/*/*/flydsl/{package}")
        assert (source / "py.typed").exists(), package


# --- the site -------------------------------------------------------------------------------------------------------


def test_links_of_the_site(tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="top">A</h1><a href="b.html#x">1</a><a href="#top">2</a>')
    (tmp_path / "b.html").write_text('<a href="a.html">1</a><a href="gone.html">2</a><a href="a.html#no">3</a>')
    assert site_check.broken(tmp_path) == [
        "a.html: b.html#x: no such place on that page",
        "b.html: gone.html does not exist",
        "b.html: a.html#no: no such place on that page",
    ]


def test_code_on_the_site_keeps_its_language():
    """The marks for tests behind it go; a name that lost a letter was the language of no code, which stayed grey."""
    text = "```python\nx = 1\n```\n\n  ```cpp fragment\n  int x;\n  ```\n"
    assert build_docs.MARKED.sub(r"\1", text) == text.replace(" fragment", "")


# --- wheels and provenance ------------------------------------------------------------------------------------------


def fake_wheel(folder: Path, name: str, files: dict[str, bytes]) -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for inside, data in files.items():
            archive.writestr(inside, data)
    return path


def test_pythons_share_what_is_compiled_without_python(tmp_path):
    for name in ("CMakeCache.txt", ".skbuild-info.json", ".ninja_log", "core.o"):
        (tmp_path / name).write_text("")
    assert wheels.reconfigured(tmp_path) == tmp_path
    assert sorted(path.name for path in tmp_path.iterdir()) == [".ninja_log", "core.o"]
    assert wheels.reconfigured(tmp_path / "none yet") == tmp_path / "none yet"


def test_a_wheel_may_need_only_what_every_linux_has(tmp_path):
    source = tmp_path / "a.c"
    source.write_text("int a(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-o", tmp_path / "libodd.so.1", "-Wl,-soname,libodd.so.1", source], check=True)
    subprocess.run(["cc", "-shared", "-Wl,--no-as-needed", "-o", tmp_path / "m.so", source, tmp_path / "libodd.so.1"],
                   check=True)
    module = {"flydsl/ir/m.so": (tmp_path / "m.so").read_bytes()}
    carried = {"flydsl/ir/libodd.so.1": (tmp_path / "libodd.so.1").read_bytes()}
    name = "flydsl_ir-0.1.0-cp311-cp311-manylinux_2_36_x86_64.whl"
    assert not list(wheels.faults([fake_wheel(tmp_path, name, {**module, **carried})]))
    (fault,) = wheels.faults([fake_wheel(tmp_path, name, module)])
    assert "m.so needs libodd.so.1" in fault
    (fault,) = wheels.faults([fake_wheel(tmp_path, "flydsl_ir-0.1.0-cp311-cp311-linux_x86_64.whl", {})])
    assert "no manylinux tag" in fault


@pytest.mark.parametrize("package", wheels.PACKAGES)
def test_a_package_names_the_pythons_that_wheels_are_made_for(package):
    """The index shows them; whoever has another Python sees why pip takes the source distribution."""
    text = (ROOT / "packages" / package / "pyproject.toml").read_text()
    named = [int(minor) for minor in re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', text)]
    assert named == list(range(wheels.OLDEST[1], wheels.NEWEST[1] + 1))
    assert f'requires-python = ">=3.{wheels.OLDEST[1]}"' in text


def test_a_wheel_may_not_be_too_large(tmp_path, monkeypatch):
    monkeypatch.setitem(wheels.SIZE_LIMITS, "flydsl-layout", 0.001)
    (fault,) = wheels.faults([fake_wheel(tmp_path, "flydsl_layout-0.1.0-py3-none-any.whl", {"x": b"0" * 2000})])
    assert "at most 0.001 allowed" in fault


def test_a_release_needs_commits_and_changelogs(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    changelog = tmp_path / "packages" / "flydsl-a" / "CHANGELOG.md"
    changelog.parent.mkdir(parents=True)
    changelog.write_text("## 0.2.0 (2026-01-01)\n\n- flydsl-a: describe the change here.\n\n## 0.1.0\n\n- x\n")
    first, second = release.not_ready(tmp_path, {"flydsl-a": "0.2.0"})
    assert "in no commit" in first and "the entry of 0.2.0 says nothing" in second
    changelog.write_text("## Unreleased\n\n- y\n\n## 0.2.0 (2026-01-01)\n\n- x\n")
    assert "`tools/versions.py bump flydsl-a PART`" in release.not_ready(tmp_path, {"flydsl-a": "0.2.0"})[1]


def test_a_release_has_what_is_prebuilt_and_tries_it(tmp_path, monkeypatch):
    """In the workspace's own environment, which it sets up: a clean clone has no other."""
    ran, prepared = [], []
    monkeypatch.setattr(release, "not_ready", lambda root, versions: [])
    monkeypatch.setattr(release.workspace, "prepare", lambda **options: prepared.append(options))
    monkeypatch.setattr(release.subprocess, "run", lambda command, **_: ran.append(command) or
                        subprocess.CompletedProcess(command, int("check" in command and "wheels" in command[1])))
    assert release.release(tmp_path, {}) == 1, "the trial failed"
    assert prepared == [{"with_torch": True}]
    assert {str(command[0]) for command in ran} == {str(release.workspace.VENV / "bin" / "python")}
    assert [command[1:] for command in ran] == [
        ["tools/public_names.py", "check"], ["tools/wheels.py", "build", "--prebuilt"], ["tools/wheels.py", "check"]]


def test_provenance_names_each_file_by_its_digest(tmp_path):
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(b"abc")
    (tmp_path / "notes.txt").write_text("left out")
    statement = release.provenance(tmp_path, {"a": "1"})
    (subject,) = statement["subject"]
    assert subject["digest"]["sha256"] == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    commit = statement["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"]["gitCommit"]
    assert len(commit) == 40
