"""Every Python block of the documentation runs, every link leads somewhere, and the pictures are current.

The blocks of a page are one program, in order. A block that shows a fragment or an error is marked
```` ```python norun ````: it is then only parsed. A block in ```` ```sh ```` is checked for the scripts it names.
"""

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    p for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/README.md")]
    if "reference/dialects" not in p.as_posix()
)
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.M | re.S)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[tuple[int, str, str]]:
    """(line, words after the language, text) of the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [(text[: m.start()].count("\n") + 1, m[2].strip(), m[3]) for m in BLOCK.finditer(text) if m[1] == language]


# What a new user follows runs on every architecture, the rest on one.
FIRST_PAGES = ("README.md", "docs/tour.md", "docs/guides/kernel-authoring.md")
WITH_PYTHON = [pytest.param(p, marks=() if name_of(p) in FIRST_PAGES else pytest.mark.one_arch)
               for p in PAGES if blocks(p, "python")]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_python_blocks_run(page, tmp_path):
    program, line = [], 0
    for start, words, text in blocks(page, "python"):
        ast.parse(text, filename=f"{name_of(page)}:{start}")
        if "norun" not in words.split():
            # The lines keep their numbers, so a traceback points into the page.
            program.append("\n" * (start - line) + text)
            line = start + text.count("\n")
    script = tmp_path / "page.py"
    script.write_text("".join(program))
    if "import torch" in script.read_text():
        pytest.importorskip("torch")
    env = {**os.environ, "FLYDSL_RUNTIME_KIND": "sim", "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path / "cache"),
           "FLYDSL_AUTOTUNE_CACHE_DIR": str(tmp_path / "tuned")}
    if "override(arch" in script.read_text():  # the simulated device follows the code, of which the page has several
        for name in ("ARCH", "FLYDSL_SIM_ARCH"):
            env.pop(name, None)
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=env, cwd=tmp_path)
    assert result.returncode == 0, f"{name_of(page)}:\n{result.stdout[-2000:]}{result.stderr[-3000:]}"


@pytest.mark.one_arch
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page if not path else page.parent / path
        if path == "" or (ROOT / "docs/reference/dialects") not in file.resolve().parents:
            assert file.exists(), f"{name_of(page)} links to {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{name_of(page)} links to {target}"


def anchors(page: Path) -> set[str]:
    """The anchors that a renderer makes of the headings."""
    headings = re.findall(r"^#+ +(.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "sh")], ids=name_of)
def test_commands_name_files_that_exist(page):
    for _, _, text in blocks(page, "sh"):
        for path in re.findall(r"(?:^|\s)\.?/?((?:tools|docs|tests|packages)/[\w./-]+)", text):
            assert (ROOT / path).exists() or (page.parent / path).exists(), f"{name_of(page)}: {path}"


PATH = re.compile(r"`((?:packages|docs|tools|tests|src|flydsl|kernels|lib|include|native|sim)/[\w./-]*)`")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_and_folders_that_a_page_names_exist(page):
    """From the root, from the page, or from a package, its sources or the simulator's; or made there by a command."""
    bases = [ROOT, page.parent]
    for package in ROOT.glob("packages/*"):
        bases += [package, package / "src", package / "src/flydsl", package / "python", package / "sim"]
    made = {line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()}
    missing = [path for path in PATH.findall(page.read_text())
               if path.strip("/") not in made and not any((base / path).exists() for base in bases)]
    assert not missing


def test_the_way_of_a_call_names_modules_of_the_compiler():
    package = ROOT / "packages" / "flydsl-compiler"
    text = (package / "README.md").read_text().partition("## How a call travels")[2].partition("\n## ")[0]
    named = [f"{folder}{name}.py" for folder, names in re.findall(r"`(\w+/)`: ((?:`\w+`(?:, )?)+)", text)
             for name in re.findall(r"\w+", names)]
    named += re.findall(r"`([\w/]+(?:\.py|/))`", text)
    assert len(named) > 15
    sources = package / "src" / "flydsl" / "compiler"
    assert not [name for name in named if not (sources / name).exists() and not (package / name).exists()]


@pytest.mark.one_arch
def test_pictures_are_current():
    script = ROOT / "docs" / "examples" / "pictures.py"
    result = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
    assert result.returncode == 0, f"{result.stdout}{result.stderr}run python docs/examples/pictures.py"


def test_every_example_is_explained_and_pictured():
    page = (ROOT / "docs" / "examples.md").read_text()
    for script in (ROOT / "docs" / "examples").glob("[0-9]*.py"):
        assert f"examples/{script.name})" in page
        if script.name < "08":  # the later ones show no layout
            assert re.search(rf"!\[[^]]+\]\(examples/pictures/{script.name[:2]}_", page), f"no picture of {script.name}"


@pytest.mark.one_arch
@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_pipeline_examples(arch, tmp_path):
    """The worked examples of the page on pipelines, under all checks."""
    env = {**os.environ, "FLYDSL_RUNTIME_KIND": "sim", "ARCH": arch, "FLYDSL_SIM_ARCH": arch,
           "FLYDSL_SIM_CHECK": "oob,race,uninit", "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path)}
    script = ROOT / "docs" / "language" / "pipeline_examples.py"
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=env)
    kinds = {"gfx1201": 1, "gfx1250": 5}.get(arch, 3)
    assert result.returncode == 0 and result.stdout.count("PASS") == kinds, result.stdout + result.stderr[-2000:]


@pytest.mark.one_arch
@pytest.mark.parametrize("module", ["flydsl.layout", "flydsl.expr", "flydsl.compiler", "flydsl.runtime",
                                    "flydsl.autotune", "flydsl.ir"])
def test_members_of_public_classes_say_what_they_are(module):
    """`help()` has a line for every property and method."""
    found = importlib.import_module(module)
    silent = []
    for name in getattr(found, "__all__", None) or dir(found):
        cls = getattr(found, name)
        if not inspect.isclass(cls) or not cls.__module__.startswith("flydsl.") or name.startswith("_"):
            continue
        for member, value in vars(cls).items():
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if not member.startswith("_") and inspect.isfunction(function) and not inspect.getdoc(function):
                silent.append(f"{name}.{member}")
    assert not silent
