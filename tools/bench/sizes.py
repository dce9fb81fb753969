"""Sizes of the wheels that tools/workspace.py and `nox -s wheels` built."""

from figures import ROOT, Figure


def measure() -> list[Figure]:
    """Compressed size of every wheel found, newest first wins."""
    found = {}
    for path in sorted([*(ROOT / "build" / "wheels").glob("*/*.whl"), *(ROOT / "dist").glob("*.whl")]):
        found[path.name.split("-")[0]] = path.stat().st_size
    return [Figure(f"wheel {name}", size / 2**20, "MiB") for name, size in found.items()]
