"""tools/versions.py on small workspaces made for the test."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import versions  # noqa: E402  (a script)

pytestmark = pytest.mark.one_arch


@pytest.fixture
def workspace(tmp_path):
    def package(name, version, *requirements):
        folder = tmp_path / "packages" / name
        folder.mkdir(parents=True)
        needs = "".join(f'    "{r}",\n' for r in requirements)
        (folder / "pyproject.toml").write_text(
            f'[project]\nname = "{name}"\nversion = "{version}"\ndependencies = [\n{needs}]\n'
        )
        (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version} (2026-01-01)\n\n- first\n")
        module = folder / "src" / "flydsl" / name.partition("-")[2] / "__init__.py"
        module.parent.mkdir(parents=True)
        module.write_text(f'"""A package."""\n\n__version__ = "{version}"\n')

    package("flydsl-ir", "0.3.0")
    package("flydsl-compiler", "0.2.9", "flydsl-ir==0.3.0", "numpy>=1.24")
    return tmp_path


def test_consistent_workspace_passes(workspace, capsys):
    assert versions.main(["--root", str(workspace), "check"]) == 0
    assert "flydsl-compiler    0.2.9" in capsys.readouterr().out


@pytest.mark.parametrize("requirement", ["flydsl-ir==0.3.1", "flydsl-ir>=0.3.0", "flydsl-ir", "flydsl-ir[dev]==0.2.0"])
def test_wrong_pin_is_reported_with_file_and_line(workspace, capsys, requirement):
    path = workspace / "packages/flydsl-compiler/pyproject.toml"
    path.write_text(path.read_text().replace("flydsl-ir==0.3.0", requirement))
    assert versions.main(["--root", str(workspace), "check"]) == 1
    error = capsys.readouterr().err
    assert "packages/flydsl-compiler/pyproject.toml:5: flydsl-ir" in error
    assert "flydsl-ir==0.3.0" in error


def test_missing_changelog_entry_is_reported(workspace, capsys):
    (workspace / "packages/flydsl-ir/CHANGELOG.md").write_text("# Changelog\n")
    assert versions.main(["--root", str(workspace), "check"]) == 1
    assert "packages/flydsl-ir/CHANGELOG.md:1" in capsys.readouterr().err


@pytest.mark.parametrize(("part", "expected"), [("major", "1.0.0"), ("minor", "0.4.0"), ("patch", "0.3.1")])
def test_bump_rewrites_version_pins_and_changelog(workspace, part, expected):
    assert versions.main(["--root", str(workspace), "bump", "flydsl-ir", part]) == 0
    assert versions.version_of(workspace / "packages/flydsl-ir") == expected
    assert f"flydsl-ir=={expected}" in (workspace / "packages/flydsl-compiler/pyproject.toml").read_text()
    assert versions.main(["--root", str(workspace), "check"]) == 0


def test_a_version_said_again_is_compared_and_bumped(workspace, capsys):
    module = workspace / "packages/flydsl-ir/src/flydsl/ir/__init__.py"
    module.write_text(module.read_text().replace("0.3.0", "0.2.0"))
    assert versions.main(["--root", str(workspace), "check"]) == 1
    assert "packages/flydsl-ir/src/flydsl/ir/__init__.py:3: version 0.2.0, but flydsl-ir is 0.3.0" in (
        capsys.readouterr().err)
    assert versions.main(["--root", str(workspace), "bump", "flydsl-ir", "minor"]) == 0
    assert '__version__ = "0.4.0"' in module.read_text()


def test_every_package_of_the_tree_says_its_version_where_it_is_looked_for():
    said = {name: [path.name for path, _ in versions.restatements(folder)]
            for name, folder in versions.packages(ROOT).items()}
    assert all("__init__.py" in files for files in said.values()), said
    assert "CMakeLists.txt" in said["flydsl-runtime"]


def test_what_is_unreleased_becomes_the_entry_of_the_new_version(workspace):
    path = workspace / "packages/flydsl-ir/CHANGELOG.md"
    path.write_text("# Changelog\n\n## Unreleased\n\n- second\n\n## 0.3.0 (2026-01-01)\n\n- first\n")
    assert versions.main(["--root", str(workspace), "bump", "flydsl-ir", "patch"]) == 0
    text = path.read_text()
    assert "Unreleased" not in text and text.index("## 0.3.1 (") < text.index("- second") < text.index("## 0.3.0 (")


def test_bump_of_unknown_package_names_the_known_ones(workspace):
    with pytest.raises(SystemExit, match="flydsl-compiler, flydsl-ir"):
        versions.main(["--root", str(workspace), "bump", "flydsl-irr", "patch"])


def test_this_workspace_is_consistent():
    assert versions.problems(ROOT) == []
