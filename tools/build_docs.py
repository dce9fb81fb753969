#!/usr/bin/env python3
"""Build the documentation site in docs/_site, and check it.

    tools/build_docs.py [--no-browser]

Pages are staged in build/site-src: docs/ as it is, the guide and reference of flydsl-layout, the reference of the
dialects (mlir-tblgen), the reference of the Python API (the docstrings), the README and CHANGELOG of each package.
mkdocs makes the site. A broken link, a public name without a docstring or a warning of mkdocs is an error; so is a
page that a headless browser cannot show (see tools/site_check.py).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import site_api
import site_check

ROOT = Path(__file__).resolve().parent.parent
DIALECTS_OUT = ROOT / "docs" / "reference" / "dialects"
STAGE = ROOT / "build" / "site-src"
SITE = ROOT / "docs" / "_site"
CODE = re.compile(r"^( *)```.*?^\1```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
MARKED = re.compile(r"^( *```\w+)\b[^\n`]+$", re.MULTILINE)
LINK = re.compile(r"(\[[^\]]*\]\()(?!https?:|mailto:|#)([^)#\s]+)")
DIALECTS = {"fly": "fly/IR/FlyOps.td", "fly_rocdl": "fly_rocdl/IR/FlyROCDLOps.td"}
PACKAGES = tuple(site_api.MODULES)


def generate_dialects() -> None:
    """Run mlir-tblgen -gen-dialect-doc for each dialect."""
    prefix = Path("/usr/lib/llvm-22")
    tblgen = shutil.which("mlir-tblgen-22") or shutil.which("mlir-tblgen") or str(prefix / "bin" / "mlir-tblgen")
    DIALECTS_OUT.mkdir(parents=True, exist_ok=True)
    include = ROOT / "packages" / "flydsl-ir" / "include"
    for dialect, source in DIALECTS.items():
        command = [tblgen, "-gen-dialect-doc", f"-dialect={dialect}", f"-I{prefix / 'include'}", f"-I{include}",
                   str(include / source)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise SystemExit(f"mlir-tblgen failed for {dialect}:\n{result.stderr}")
        (DIALECTS_OUT / f"{dialect}.md").write_text(result.stdout)
        print(f"docs/reference/dialects/{dialect}.md: {result.stdout.count(chr(10))} lines")


def broken_links() -> list[str]:
    """Every relative link whose target does not exist, as ``file:line: target``."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "packages").glob("*/README.md")]
    found = []
    for page in pages:
        if DIALECTS_OUT in page.parents or SITE in page.parents:
            continue
        # Code is no prose: brackets in it are no links. Its lines stay, so that numbers are right.
        text = CODE.sub(lambda code: "\n" * code[0].count("\n"), page.read_text())
        for number, line in enumerate(text.splitlines(), 1):
            for _, target in LINK.findall(line):
                if not (page.parent / target).exists():
                    found.append(f"{page.relative_to(ROOT)}:{number}: {target} does not exist")
    return found


# --------------------------------------------------------------------------------------------------------------------
# Staging


def staged_places() -> dict[Path, Path]:
    """Source file -> its place in the site, for everything that is not generated."""
    places = {}
    for path in (ROOT / "docs").rglob("*"):
        if path.is_file() and SITE not in path.parents and "__pycache__" not in path.parts:
            places[path] = path.relative_to(ROOT / "docs")
    for path in (ROOT / "packages" / "flydsl-layout" / "docs").rglob("*"):
        if path.is_file() and path.suffix in (".md", ".svg"):
            places[path] = Path("layout") / path.relative_to(ROOT / "packages" / "flydsl-layout" / "docs")
    for package in PACKAGES:
        places[ROOT / "packages" / package / "README.md"] = Path("api") / f"{package}.md"
        places[ROOT / "packages" / package / "CHANGELOG.md"] = Path("changelog") / f"{package}.md"
    for name in ("CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT"):
        if (ROOT / f"{name}.md").exists():
            places[ROOT / f"{name}.md"] = Path("contributing") / f"{name.lower().replace('_', '-')}.md"
    places[ROOT / "README.md"] = Path("readme.md")
    return places


def relinked(text: str, source: Path, places: dict[Path, Path]) -> str:
    """The page with its links pointing to where their targets are in the site."""
    here = places[source].parent

    def target_of(match: re.Match[str]) -> str:
        target = (source.parent / match[2]).resolve()
        if target.is_dir():
            target = next((target / n for n in ("index.md", "README.md") if (target / n) in places), target)
        place = places.get(target)
        if place is None and target.is_file():  # a file of the tree that is no page: shipped as it is
            place = Path("files") / target.relative_to(ROOT)
            (STAGE / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, STAGE / place)
        if place is None:
            place = Path("index.md")
        return match[1] + os.path.relpath(place, here)

    pieces, last = [], 0
    for code in CODE.finditer(text):
        pieces += [LINK.sub(target_of, text[last:code.start()]), code[0]]
        last = code.end()
    return "".join([*pieces, LINK.sub(target_of, text[last:])])


def stage() -> list[str]:
    """Fill build/site-src; returns what is wrong with the API's docstrings."""
    shutil.rmtree(STAGE, ignore_errors=True)
    places = staged_places()
    for source, place in places.items():
        target = STAGE / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            # Words after a block's language are for the tests (`python norun`); the renderer takes no such block.
            target.write_text(MARKED.sub(r"\1", relinked(source.read_text(), source, places)))
        else:
            shutil.copyfile(source, target)
    problems: list[str] = []
    for modules in site_api.MODULES.values():
        for module in modules:
            found = site_api.entries(module)
            problems += site_api.faults(module, found)
            (STAGE / "api" / f"{module}.md").write_text(site_api.page(module, found))
    return problems


def navigation() -> str:
    """mkdocs.yml with each folder of its ``nav`` replaced by the pages in it (their titles are their headings)."""
    lines = []
    for line in (ROOT / "mkdocs.yml").read_text().splitlines():
        match = re.fullmatch(r"  - (\w[\w ]*): ([\w/]+)", line)
        if not match or not (STAGE / match[2]).is_dir():
            lines.append(line)
            continue
        lines.append(f"  - {match[1]}:")
        pages = sorted((STAGE / match[2]).glob("*.md"), key=lambda p: (p.name != "index.md", p.name))
        if match[2] == "api":
            pages = [STAGE / "api" / f"{name}.md" for p, ms in site_api.MODULES.items() for name in (p, *ms)]
        lines += [f"      - {page.relative_to(STAGE)}" for page in pages]
    text = "\n".join(lines) + "\n"
    return text.replace("docs_dir: build/site-src", f"docs_dir: {STAGE}").replace(
        "site_dir: docs/_site", f"site_dir: {SITE}"
    )


def build() -> list[str]:
    """Run mkdocs; returns its warnings."""
    config = ROOT / "build" / "mkdocs.yml"
    config.write_text(navigation())
    command = [sys.executable, "-m", "mkdocs", "build", "-f", str(config)]
    # The theme's note on the future of mkdocs is no warning about these pages.
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    found = [line for line in result.stderr.splitlines() if line.startswith(("WARNING", "ERROR"))]
    if result.returncode and not found:
        found = [f"mkdocs failed:\n{result.stderr[-3000:]}"]
    return found


def main() -> int:
    """Generate, build, check; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-browser", action="store_true", help="leave the headless browser out")
    args = parser.parse_args()
    generate_dialects()
    problems = broken_links() + stage() + build()
    if not problems:
        problems += site_check.broken(SITE)
    if not problems and not args.no_browser:
        problems += site_check.in_browser(SITE)
    print("\n".join(problems) or f"{len(list(SITE.rglob('*.html')))} pages in {SITE.relative_to(ROOT)}: no fault")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
