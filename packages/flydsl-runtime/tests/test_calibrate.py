"""`model calibrate`: files of rocprofv3 beside a profile of the same launches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flydsl.runtime.profiling import LaunchProfile
from flydsl.runtime.profiling.calibrate import compare, fit, format_comparison
from flydsl.runtime.profiling.model_constants import constants
from flydsl.runtime.profiling.rocprofv3 import measurements

TRACE = """\
"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",\
"Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",\
"Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
"KERNEL_DISPATCH","Agent 4",1,0,77,1,11,"stream(float const*, float*)",1,1000000,1100000,0,0,8,0,16,256,1,1,262144,1,1
"KERNEL_DISPATCH","Agent 4",1,0,77,2,11,"stream(float const*, float*)",2,2000000,2104000,0,0,8,0,16,256,1,1,262144,1,1
"KERNEL_DISPATCH","Agent 4",1,0,77,3,11,"stream(float const*, float*)",3,3000000,3102000,0,0,8,0,16,256,1,1,262144,1,1
"KERNEL_DISPATCH","Agent 4",1,0,77,4,12,"gemm.kd",4,4000000,4242000,0,0,8,0,16,256,1,1,1024,64,1
"KERNEL_DISPATCH","Agent 4",1,0,77,5,13,"other.kd",5,5000000,5242000,0,0,8,0,16,256,1,1,1024,64,1
"""

COUNTERS = """\
"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id","Kernel_Name",\
"Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Counter_Name",\
"Counter_Value","Start_Timestamp","End_Timestamp"
4,4,"Agent 4",1,9,9,65536,12,"gemm.kd",256,0,0,8,0,16,"GRBM_GUI_ACTIVE",400000.0,4000000,4250000
4,4,"Agent 4",1,9,9,65536,12,"gemm.kd",256,0,0,8,0,16,"FETCH_SIZE",2000.0,4000000,4250000
4,4,"Agent 4",1,9,9,65536,12,"gemm.kd",256,0,0,8,0,16,"WRITE_SIZE",500.0,4000000,4250000
"""

JSON = {"rocprofiler-sdk-tool": [{
    "kernel_symbols": [{"kernel_id": 12, "kernel_name": "gemm.kd", "formatted_kernel_name": "gemm"}],
    "buffer_records": {"kernel_dispatch": [{
        "start_timestamp": 4000000, "end_timestamp": 4242000,
        "dispatch_info": {"kernel_id": 12, "workgroup_size": {"x": 256, "y": 1, "z": 1},
                          "grid_size": {"x": 1024, "y": 64, "z": 1}},
    }]},
}]}


def launch(kernel: str, grid: list[int], us: float, bound: str, clock: float = 2400.0) -> dict:
    timing = {"cycles": 1e5, "microseconds": us / 1.3, "memory_cycles": 10.0, "sample_cycles": 100, "sample_groups": 1,
              "groups_per_cu": 1, "wave_cycles": 100, "simds": 4, "valu_busy": 0, "matrix_busy": 0, "lds_busy": 0,
              "l1_busy": 0, "matrix_flops": 0, "stall": {}}
    sustained = {"estimate": True, "microseconds": us, "clock_mhz": clock, "power": 1.0, "memory_bytes": 3e6,
                 "reread_bytes": 0, "imbalance": 1.0, "bound": bound}
    return {"kernel": kernel, "arch": "gfx950", "grid": grid, "block": [256, 1, 1], "instructions": [],
            "timing": timing, "sustained": sustained}


PROFILE = [launch("_Z6streamPKfPf", [1024, 1, 1], 82.0, "memory"), launch("gemm", [4, 64, 1], 202.0, "clock", 2000.0),
           launch("gemm", [4, 128, 1], 402.0, "clock")]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    out = {name: tmp_path / name for name in ("trace.csv", "counters.csv", "trace.json", "profile.json")}
    out["trace.csv"].write_text(TRACE)
    out["counters.csv"].write_text(COUNTERS)
    out["trace.json"].write_text(json.dumps(JSON))
    out["profile.json"].write_text(json.dumps(PROFILE))
    return out


def test_times_are_matched_by_name_and_grid(files):
    found = compare(map(LaunchProfile, PROFILE), measurements([files["trace.csv"]]))
    assert [(d.measured_us, d.sustained_us, d.launches) for d in found] == [(102.0, 82.0, 3), (242.0, 202.0, 1)]
    assert found[0].ratio == pytest.approx(82 / 102)
    by_json = compare(map(LaunchProfile, PROFILE), measurements([files["trace.json"]]))
    assert [(d.kernel, d.measured_us) for d in by_json] == [("gemm", 242.0)]


def test_counters_say_clock_and_traffic(files):
    found = compare(map(LaunchProfile, PROFILE), measurements([files["trace.csv"], files["counters.csv"]]))
    gemm = found[1]
    assert gemm.measured_us == 242.0  # of the trace: counting slows a launch down
    assert gemm.clock_mhz == pytest.approx(1600) and gemm.memory_bytes == pytest.approx(2500 * 1024)


def test_what_bounds_a_launch_is_fitted(files):
    """The constants bring the model's time, as its formulas have it, to the measured one."""
    known = {c.name: c.value for c in constants("gfx950")}
    launch_us = known["launchMicroseconds"]
    found = compare(map(LaunchProfile, PROFILE), measurements([files["trace.csv"]]))
    fitted = fit(found)["gfx950"]
    assert fitted["memoryAchieved"] == pytest.approx(known["memoryAchieved"] * (82 - launch_us) / (102 - launch_us),
                                                     rel=1e-3)
    slower = (202 - launch_us) / (242 - launch_us)
    assert fitted["powerMatrix8"] == pytest.approx(known["powerMatrix8"] * slower**-2, rel=1e-3)
    assert "launchMicroseconds" not in fitted
    found = compare(map(LaunchProfile, PROFILE), measurements([files["trace.csv"], files["counters.csv"]]))
    assert fit(found)["gfx950"]["powerMatrix8"] == pytest.approx(known["powerMatrix8"] * (1600 / 2000) ** -2, rel=1e-3)
    text = format_comparison(found, fit(found))
    assert "stream" in text and "clock 1600 MHz, model 2000" in text and "memoryAchieved" in text


def test_command(files, tmp_path):
    model = tmp_path / "model.json"
    base = [sys.executable, "-m", "flydsl.runtime", "model", "calibrate"]
    done = subprocess.run([*base, str(files["trace.csv"]), "--profile", str(files["profile.json"]), "-o", str(model)],
                          capture_output=True, text=True)
    assert done.returncode == 0 and "2 kernels, median ratio" in done.stdout, done.stderr
    used = subprocess.run([sys.executable, "-m", "flydsl.runtime", "model", "--arch", "gfx950"], capture_output=True,
                          text=True, env={**os.environ, "FLYDSL_SIM_MODEL": str(model)})
    (line,) = [line for line in used.stdout.splitlines() if "memoryAchieved" in line]
    assert "0.584" in line and "yours" in line
    model.write_text('{"constants": {"gfx950": {"memoryAchieve": 0.5}}}')
    used = subprocess.run([sys.executable, "-m", "flydsl.runtime", "model"], capture_output=True, text=True,
                          env={**os.environ, "FLYDSL_SIM_MODEL": str(model)})
    assert used.returncode == 1, used.stderr
    assert used.stderr.startswith("error: FLYDSL_SIM_MODEL: there is no constant memoryAchieve ")
    done = subprocess.run([*base, "--profile", str(files["profile.json"]), str(files["trace.csv"])],
                          capture_output=True, text=True)
    assert done.returncode == 0 and "2 kernels, median ratio" in done.stdout, done.stderr
    done = subprocess.run([*base, str(files["trace.csv"])], capture_output=True, text=True)
    assert done.returncode == 2 and "required: --profile" in done.stderr


ROW = '"KERNEL_DISPATCH","Agent 4",1,0,77,1,11,"stream(float const*, float*)",1,1000000,1100000'


@pytest.mark.parametrize(("text", "expected"), [
    ("x,y\n1,2\n", "there is no column Kernel_Name, Start_Timestamp, End_Timestamp, Grid_Size"),
    ("", "there is no column"),
    (TRACE.replace('"Grid_Size_Y",', '"Grid_Size_Q",'), "there is no column Grid_Size_Y"),
    (COUNTERS.replace('"Counter_Value"', '"Value"'), "there is no column Counter_Value"),
    (TRACE.replace("_Timestamp", "_Timestamp(us)"), "there is no column Start_Timestamp, End_Timestamp"),
    (TRACE.splitlines()[0] + "\n", "there is no launch"),
    (TRACE + ROW + "\n", "line 7: the row has another number of columns"),
    (TRACE + '"KERNEL_DISPATCH"\n', "line 7: the row has another number of columns"),
    (TRACE.replace("1000000,1100000", "1100000,1000000"), "line 2: the launch ends at 1000000 and starts at 1100000"),
    (TRACE.replace("1000000,1100000", "1.0e6 ns,1100000"), "line 2: the start is '1.0e6 ns'"),
    (COUNTERS.replace("400000.0", "nan"), "line 2: Counter_Value is 'nan', not a number from 0"),
    (COUNTERS.replace("400000.0", ""), "line 2: Counter_Value is ''"),
    (TRACE.replace('"Agent 4",1,0,77,4', '"Agent 5",1,0,77,4'),
     "several agents; choose one with --agent: Agent 4, Agent 5"),
    (TRACE.replace("gemm", "a" * 200000), "field larger than field limit"),
])
def test_odd_tables_are_refused(tmp_path, text, expected):
    file = tmp_path / "odd.csv"
    file.write_text(text)
    with pytest.raises(ValueError) as error:
        measurements([file])
    assert str(error.value).startswith(f"{file}: ") and expected in str(error.value)


@pytest.mark.parametrize(("text", "expected"), [
    ("{}", "KeyError 'rocprofiler-sdk-tool'"), ("nonsense", "JSONDecodeError"), ("[]", "TypeError"), ("7", "TypeError"),
    ('{"rocprofiler-sdk-tool": []}', "there is no launch"), ('{"rocprofiler-sdk-tool": [7]}', "TypeError"),
    ('{"rocprofiler-sdk-tool": {"a": 1}}', "TypeError"), ("[" * 100000, "no kernel trace"),
    (json.dumps(JSON).replace('"kernel_id": 12, "workgroup', '"kernel_id": 13, "workgroup'), "KeyError 13"),
    (json.dumps(JSON).replace("4242000", '"late"'), "the end is 'late'"),
])
def test_odd_json_is_refused(tmp_path, text, expected):
    file = tmp_path / "odd.json"
    file.write_text(text)
    with pytest.raises(ValueError) as error:
        measurements([file])
    assert str(error.value).startswith(f"{file}: ") and expected in str(error.value)


def test_bytes_are_refused(tmp_path):
    for name in ("odd.csv", "odd.json"):
        (tmp_path / name).write_bytes(b"\xff\xfe\x00k\x00")
        with pytest.raises(ValueError, match=name):
            measurements([tmp_path / name])


def test_a_mark_of_the_byte_order_is_no_column(tmp_path):
    (tmp_path / "trace.csv").write_text(TRACE, encoding="utf-8-sig")
    assert len(measurements([tmp_path / "trace.csv"])) == 3


def test_one_of_several_agents(tmp_path):
    """Four GPUs run the same kernels; each has times of its own."""
    text, tool = TRACE, JSON["rocprofiler-sdk-tool"][0]
    for row in TRACE.splitlines()[1:]:
        text += row.replace("Agent 4", "Agent 5").replace("1100000", "1500000") + "\n"
    (tmp_path / "trace.csv").write_text(text)
    (record,) = tool["buffer_records"]["kernel_dispatch"]
    records = [{**record, "end_timestamp": 4000000 + 1000 * us,
                "dispatch_info": {**record["dispatch_info"], "agent_id": {"handle": handle}}}
               for handle, us in ((70, 100), (80, 300))]
    several = {**tool, "buffer_records": {"kernel_dispatch": records},
               "agents": [{"id": {"handle": 70}, "node_id": 4}, {"id": {"handle": 80}, "node_id": 5}]}
    (tmp_path / "trace.json").write_text(json.dumps({"rocprofiler-sdk-tool": [several]}))
    for agent, first, by_json in (("Agent 4", 100.0, 100.0), ("Agent 5", 500.0, 300.0)):
        assert measurements([tmp_path / "trace.csv"], agent)["stream", 262144].microseconds[0] == first
        assert measurements([tmp_path / "trace.json"], agent)["gemm", 65536].microseconds == [by_json]
    for name in ("trace.csv", "trace.json"):
        with pytest.raises(ValueError, match="several agents; choose one with --agent: Agent 4, Agent 5"):
            measurements([tmp_path / name])
        with pytest.raises(ValueError, match="no launch of agent 'GPU 1'; there are: Agent 4, Agent 5"):
            measurements([tmp_path / name], "GPU 1")


@pytest.mark.parametrize("instances", [1, 8])
def test_counters_of_json(tmp_path, instances):
    """A counter has a record for each of its instances in the hardware; together they are what the CSV has."""
    tool = JSON["rocprofiler-sdk-tool"][0]
    names = ("GRBM_GUI_ACTIVE", "FETCH_SIZE", "WRITE_SIZE")
    info = tool["buffer_records"]["kernel_dispatch"][0]["dispatch_info"]
    record = {"dispatch_data": {"start_timestamp": 4000000, "end_timestamp": 4250000, "dispatch_info": info},
              "records": [{"counter_id": {"handle": k}, "value": value / instances}
                          for k, value in enumerate((4e5, 2000, 500)) for _ in range(instances)]}
    counted = {**tool, "buffer_records": {"kernel_dispatch": []},
               "counters": [{"id": {"handle": k}, "name": name} for k, name in enumerate(names)],
               "callback_records": {"counter_collection": [record]}}
    (tmp_path / "pmc.json").write_text(json.dumps({"rocprofiler-sdk-tool": [counted]}))
    (gemm,) = compare(map(LaunchProfile, PROFILE), measurements([tmp_path / "pmc.json"]))
    assert gemm.measured_us == 250 and gemm.clock_mhz == pytest.approx(1600)
    assert gemm.memory_bytes == pytest.approx(2500 * 1024)


@pytest.mark.parametrize(("active", "mhz"), [(400000.0, 1600), (8 * 400000.0, 1600), (8 * 900000.0, None)])
def test_clocks_of_all_dies(tmp_path, active, mhz):
    """The clocks of the eight dies of gfx950 come added up; what is still too many is told."""
    (tmp_path / "pmc.csv").write_text(COUNTERS.replace("400000.0", str(active)))
    found = measurements([tmp_path / "pmc.csv"])
    if mhz is None:
        expected = "gemm: GRBM_GUI_ACTIVE says 7.2e.06 clocks in 250 us, 3600 MHz; gfx950 has 2400"
        with pytest.raises(ValueError, match=expected):
            compare(map(LaunchProfile, PROFILE), found)
        return
    assert compare(map(LaunchProfile, PROFILE), found)[0].clock_mhz == pytest.approx(mhz)


def test_what_the_memory_side_cache_bounds_is_fitted(files):
    known = {c.name: c.value for c in constants("gfx950")}
    profile = [launch("_Z6streamPKfPf", [1024, 1, 1], 82.0, "memory-side cache")]
    fitted = fit(compare(map(LaunchProfile, profile), measurements([files["trace.csv"]])))["gfx950"]
    expected = known["sideBytesPerSec"] * (82 - known["launchMicroseconds"]) / (102 - known["launchMicroseconds"])
    assert fitted == {"sideBytesPerSec": pytest.approx(expected, rel=1e-3)}
