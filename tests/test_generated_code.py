"""The machine code of the examples: registers, spills, widths of accesses, and how busy the matrix unit is."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HOTLOOP = ROOT / "tools" / "bench" / "hotloop.py"
sys.path.insert(0, str(HOTLOOP.parent))

import hotloop  # noqa: E402  (a script of tools/bench)

pytestmark = pytest.mark.one_arch

if shutil.which(hotloop.MCA) is None or shutil.which(hotloop.READELF) is None:
    pytest.skip(f"needs {hotloop.MCA} and {hotloop.READELF}", allow_module_level=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(registers and loop, instructions) of the only kernel of an example, compiled for an architecture once."""
    folder, known = tmp_path_factory.mktemp("code"), {}

    def build(example, arch):
        import flydsl.ir

        if (example, arch) not in known:
            path = folder / f"{example}.{arch}.hsaco"
            command = [sys.executable, HOTLOOP, "--example", example, "--arch", arch, "--json", "--save", path]
            result = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=ROOT)
            assert result.returncode == 0, result.stderr
            (report,) = json.loads(result.stdout).values()
            (name,) = hotloop.metadata(path)
            known[example, arch] = report, hotloop.parse(flydsl.ir.disassemble(path.read_bytes()))[name]
        return known[example, arch]

    return build


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_vector_add_accesses_are_128_bits_wide(built, arch):
    report, code = built("01_vector_add", arch)
    accesses = [i.mnemonic for i in code if i.mnemonic.startswith(("global_", "buffer_", "flat_", "scratch_"))]
    wide = ("_dwordx4", "_b128")
    assert sorted(a.endswith(wide) for a in accesses) == [True] * 3, accesses  # two loads and a store, nothing else
    assert report["private_segment_fixed_size"] == 0
    assert report["vgpr_spill_count"] == report["sgpr_spill_count"] == 0
    assert report["vgpr_count"] <= 32


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1201", "gfx1250"])
def test_vector_add_computes_addresses_once(built, arch):
    """A row and a column of the tile give three addresses; division and re-computation would show here."""
    _, code = built("01_vector_add", arch)
    vector = [i.mnemonic for i in code if i.mnemonic.startswith("v_") and not i.mnemonic.startswith("v_nop")]
    assert not [m for m in vector if "rcp" in m or "div" in m], "a division in the address arithmetic"
    assert len(vector) <= 40, vector


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_preshuffle_gemm_fits_its_registers(built, arch):
    report, _ = built("04_preshuffle_gemm", arch)
    assert report["vgpr_spill_count"] == report["sgpr_spill_count"] == report["private_segment_fixed_size"] == 0
    assert report["vgpr_count"] + report["agpr_count"] <= 144
    assert report["group_segment_fixed_size"] == 2 * 128 * 64 * 2


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_preshuffle_gemm_keeps_the_matrix_unit_busy(built, arch):
    report, code = built("04_preshuffle_gemm", arch)
    loop = report["loop"]
    assert loop["matrix_instructions"] == 128  # two K tiles
    assert loop["utilisation"] >= 0.95
    assert loop["scratch_instructions"] == 0
    body = [i.mnemonic for i in hotloop.hot_loop(code)]
    assert body.count("buffer_load_dwordx4") == 16
    assert body.count("ds_read_b128") == 32
    assert body.count("ds_write_b128") == 8
    arithmetic = [m for m in body if m.startswith("v_") and not m.startswith("v_mfma")]
    assert len(arithmetic) <= 4, f"address arithmetic in the hot loop: {arithmetic}"


def test_hot_loop_of_nested_loops_is_the_inner_one():
    text = "\n".join([
        "0000000000001000 <k>:",
        "\tv_mov_b32_e32 v0, 0 // 000000001000: 7E000280",
        "\tv_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3] // 000000001004: D3CD0000 04020D04",
        "\ts_cbranch_scc1 65533 // 00000000100c: BF85FFFD",  # back to 0x1004
        "\ts_cbranch_scc0 65531 // 000000001010: BF84FFFB",  # back to 0x1000
        "\ts_endpgm // 000000001014: BF810000",
    ])
    code = hotloop.parse(text)["k"]
    assert [i.address for i in hotloop.hot_loop(code)] == [0x1004, 0x100C]
    with pytest.raises(ValueError, match="no loop"):
        hotloop.hot_loop(code[:1])


def test_utilisation_of_a_known_loop():
    """Independent matrix instructions of 4 cycles each fill their unit; a dependent chain does not."""
    independent = [hotloop.Instruction(8 * i, f"v_mfma_f32_16x16x16_f16 v[{4 * i}:{4 * i + 3}], v[64:65], v[66:67], "
                                              f"v[{4 * i}:{4 * i + 3}]") for i in range(8)]
    full = hotloop.analyse(independent, "gfx942")
    assert full.matrix_cycles == 32
    assert full.utilisation > 0.98
    idle = hotloop.analyse([*independent, *[hotloop.Instruction(0, "v_add_u32_e32 v70, v70, v71")] * 32], "gfx942")
    assert idle.utilisation < full.utilisation
