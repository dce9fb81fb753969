"""Completeness: what of LLVM's instruction tables the simulator executes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hiplib import find_library

from flydsl.runtime.__main__ import main
from flydsl.runtime.coverage import ARCHITECTURES, coverage, fidelity_table, summary

LIBRARY = str(find_library() or "")
PAGE = Path(__file__).parents[4] / "docs/concepts/simulator-fidelity.md"

pytestmark = pytest.mark.skipif(not LIBRARY, reason="simulator library not built")


@pytest.mark.parametrize("arch", sorted(ARCHITECTURES))
def test_nearly_everything_is_implemented(arch):
    """At least 98 % of the compute instructions, in every group that compilers use."""
    counts = summary(arch, LIBRARY)
    assert counts["total"] > 2000
    assert counts["percent"] >= 98, counts
    names = {i.mnemonic for i in coverage(arch, LIBRARY) if i.fidelity != "missing"}
    common = {"v_fma_f32", "s_barrier_wait" if arch.startswith("gfx12") else "s_barrier"}
    if arch not in ("gfx90a", "gfx1100", "gfx1151"):
        common.add("v_cvt_pk_fp8_f32")
    matrix = "v_mfma_f32_16x16x16_f16" if arch.startswith("gfx9") else "v_wmma_f32_16x16x16_bf16"
    if arch != "gfx1250":
        common.add("v_mfma_f32_16x16x16f16" if arch == "gfx90a" else matrix)
    assert common <= names


def test_transcendentals_are_marked():
    """Approximate instructions are listed as such."""
    kinds = {i.mnemonic: i.fidelity for i in coverage("gfx942", LIBRARY)}
    assert kinds["v_exp_f32"] == kinds["v_rcp_f32"] == "approximate"
    assert kinds["v_add_f32"] == kinds["ds_read_b32"] == "exact"


@pytest.mark.parametrize("arch", sorted(ARCHITECTURES))
def test_what_depends_on_the_host_is_not_exact(arch):
    """Clocks, hardware registers that the machine does not have, answers of a driver."""
    kinds = {i.mnemonic: i.fidelity for i in coverage(arch, LIBRARY)}
    outside = {"s_getreg_b32", "s_memtime", "s_memrealtime", "s_get_shader_cycles_u64", "s_sendmsg_rtn_b32",
               "s_sendmsg_rtn_b64", "s_alloc_vgpr"}
    assert {"s_getreg_b32"} < outside & kinds.keys()
    assert {kinds[name] for name in outside & kinds.keys()} == {"approximate"}


def test_instructions_as_json(capsys):
    """`coverage --json` has the compute instructions that `summary` counts; with `--missing`, those alone."""
    counts = summary("gfx1250", LIBRARY)
    assert main(["coverage", "--arch", "gfx1250", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["gfx1250"] and len(found["gfx1250"]) == counts["total"]
    for kind in ("exact", "approximate", "missing"):
        assert sum(i["fidelity"] == kind for i in found["gfx1250"]) == counts[kind]
    assert all(i["opcode"] and i["mnemonic"] and i["example"] for i in found["gfx1250"])
    assert main(["coverage", "--arch", "gfx1250", "--json", "--missing"]) == 0
    missing = json.loads(capsys.readouterr().out)
    assert missing == {"gfx1250": [i for i in found["gfx1250"] if i["fidelity"] == "missing"]}


def test_the_documented_table_is_current():
    """docs/concepts/simulator-fidelity.md holds what the tool prints."""
    if not PAGE.exists():
        pytest.skip("documentation is not part of this source tree")
    assert fidelity_table(library=LIBRARY) in PAGE.read_text()
