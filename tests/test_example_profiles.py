"""What the profile of a simulated launch says about the examples: the swizzle of 04, the accesses of 01."""

import importlib.util
from pathlib import Path

import pytest

import flydsl.runtime as rt
from flydsl.runtime.device import get_rocm_arch

EXAMPLES = Path(__file__).resolve().parent.parent / "docs" / "examples"

if rt.kind() != "sim":
    pytest.skip("profiles are taken by the simulator", allow_module_level=True)


@pytest.fixture
def launches(tmp_path, monkeypatch):
    """Run an example, changed by replacing some of its text, under a profile; the launches of its kernels."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path / "cache"))

    def run(name, *size, replace=("", "")):
        source = (EXAMPLES / f"{name}.py").read_text()
        changed = source.replace(*replace) if replace[0] else source
        assert not replace[0] or changed != source, f"{name} has no {replace[0]!r}"
        path = tmp_path / f"changed_{abs(hash(replace))}.py"
        path.write_text(changed)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with rt.profile() as profile:
            module.run(*size)
        return list(profile)

    return run


def lds_clocks(launch):
    """(clocks in which LDS was busy, clocks it would be without bank conflicts)."""
    return sum(i.lds_cycles for i in launch.instructions), sum(i.lds_ideal for i in launch.instructions)


@pytest.mark.skipif(get_rocm_arch().split(":")[0] not in ("gfx942", "gfx950"), reason="04 needs MFMA")
def test_swizzle_of_the_gemm_removes_bank_conflicts(launches):
    (swizzled,) = launches("04_preshuffle_gemm", 128, 128, 256)
    busy, ideal = lds_clocks(swizzled)
    assert busy == ideal > 0
    plain_layout = ("fx.make_composed_layout(swizzle, rows)", "rows")
    (plain,) = launches("04_preshuffle_gemm", 128, 128, 256, replace=plain_layout)
    busy, ideal_again = lds_clocks(plain)
    assert ideal_again == ideal
    assert busy > 2 * ideal


def test_vector_add_moves_every_byte_once(launches):
    profile = launches("01_vector_add", 64, 1024)
    memory = [i for i in profile[0].instructions if i.space == "global"]
    assert {i.kind for i in memory} == {"load", "store"}
    size = 64 * 1024 * 4
    assert sum(i.bytes for i in memory if i.kind == "load") == 2 * size
    assert sum(i.bytes for i in memory if i.kind == "store") == size
    # A wave covers two runs of 512 bytes: 4 lines of 128 bytes each, 5 where an array is not aligned to a line.
    assert 3 * size <= sum(i.lines for i in memory) * 128 <= 3 * size * 5 / 4
