"""Options of code generation, and what is reported about its result."""

import shutil
import subprocess
import threading

import pytest

from flydsl import ir as flyir
from flydsl._mlir import ir

STORE = """
define amdgpu_kernel void @store(ptr addrspace(1) %p, float %x) {
  %y = fmul float %x, 2.0
  %z = fadd float %y, %x
  store float %z, ptr addrspace(1) %p
  ret void
}
"""

LOOP = """
define amdgpu_kernel void @k(ptr addrspace(1) %p, i32 %s) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %scaled = mul i32 %i, %s
  %q = getelementptr i32, ptr addrspace(1) %p, i32 %scaled
  store volatile i32 %i, ptr addrspace(1) %q
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, STEPS
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

CALLS_LIBRARY = """
declare float @twice(float)
define amdgpu_kernel void @k(ptr addrspace(1) %p, float %x) {
  %y = call float @twice(float %x)
  store float %y, ptr addrspace(1) %p
  ret void
}
"""

LIBRARY = """
target triple = "amdgcn-amd-amdhsa"
define float @twice(float %x) {
  %y = call float @half_of_four_times(float %x)
  ret float %y
}
define float @half_of_four_times(float %x) {
  %y = fmul float %x, 2.0
  ret float %y
}
define float @unused(float %x) {
  ret float %x
}
"""

MODULE = """
gpu.module @kernels {
  llvm.func @scale(%p: !llvm.ptr<1>, %x: f32) attributes {gpu.kernel, rocdl.kernel} {
    %y = llvm.fmul %x, %x : f32 loc("kernel.py":17:5)
    %z = llvm.fadd %y, %x : f32 loc("kernel.py":18:9)
    llvm.store %z, %p : f32, !llvm.ptr<1> loc("kernel.py":19:3)
    llvm.return loc("kernel.py":20:1)
  } loc("kernel.py":16:1)
}
"""


def test_resources_of_a_kernel():
    resources = flyir.kernel_resources(flyir.compile_hsaco(STORE, "gfx942"))
    assert list(resources) == ["store"]
    kernel = resources["store"]
    assert kernel.vgprs >= 2 and kernel.sgprs > 0 and kernel.wave_size == 64
    assert kernel.kernarg_bytes == 12 and kernel.lds_bytes == 0 and kernel.scratch_bytes == 0
    assert kernel.vgpr_spills == kernel.sgpr_spills == 0


def test_resources_count_lds_scratch_and_spills():
    text = """
    @lds = internal addrspace(3) global [100 x i32] poison
    define amdgpu_kernel void @k(ptr addrspace(1) %p, i32 %i) {
      %a = alloca [64 x i32], addrspace(5)
      %q = getelementptr i32, ptr addrspace(5) %a, i32 %i
      store volatile i32 1, ptr addrspace(5) %q
      %l = getelementptr i32, ptr addrspace(3) @lds, i32 %i
      store volatile i32 2, ptr addrspace(3) %l
      ret void
    }"""
    kernel = flyir.kernel_resources(flyir.compile_hsaco(text, "gfx950"))["k"]
    assert kernel.lds_bytes == 400
    assert kernel.scratch_bytes >= 256


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF\x02" + b"\0" * 100, b"\x7fELF\x02" + b"\xff" * 100])
def test_resources_of_something_else(data):
    with pytest.raises(ValueError, match="code object"):
        flyir.kernel_resources(data)


def test_waves_per_eu_reaches_the_kernel():
    assert '"amdgpu-waves-per-eu"="2,4"' in flyir.emit_llvm_ir(STORE, "gfx942", waves_per_eu="2,4")
    assert '"amdgpu-waves-per-eu"="3"' in flyir.emit_llvm_ir(STORE, "gfx942", waves_per_eu=3)
    assert "waves-per-eu" not in flyir.emit_llvm_ir(STORE, "gfx942")
    for bad in ("0", "4,2", "x", "1,"):
        with pytest.raises(flyir.CodegenError, match="waves per EU"):
            flyir.emit_llvm_ir(STORE, "gfx942", waves_per_eu=bad)


def test_fast_math_contracts():
    assert "fmul fast float" in flyir.emit_llvm_ir(STORE, "gfx942", fast_math=True)
    assert "fmul float" in flyir.emit_llvm_ir(STORE, "gfx942")


def test_features_change_the_code():
    assert flyir.emit_isa(STORE, "gfx1201", features="+cumode") != flyir.emit_isa(STORE, "gfx1201", features="-cumode")


def test_a_library_gives_missing_definitions(tmp_path):
    with pytest.raises(flyir.CodegenError, match="twice"):
        flyir.compile_hsaco(CALLS_LIBRARY, "gfx942")
    path = tmp_path / "library.ll"
    path.write_text(LIBRARY)
    for library in (path, str(path), LIBRARY.encode()):
        linked = flyir.emit_llvm_ir(CALLS_LIBRARY, "gfx942", link_bitcode=[library])
        assert "define internal float @twice" in linked
        assert "@unused" not in linked
    assert "v_add_f32" in flyir.emit_isa(CALLS_LIBRARY, "gfx942", link_bitcode=[LIBRARY.encode()])
    assert flyir.compile_hsaco(CALLS_LIBRARY, "gfx942", link_bitcode=[LIBRARY.encode()])[:4] == b"\x7fELF"


def test_a_bad_library_is_an_error(tmp_path):
    with pytest.raises(flyir.CodegenError, match="cannot read library 0"):
        flyir.compile_hsaco(CALLS_LIBRARY, "gfx942", link_bitcode=[b"not IR"])
    with pytest.raises(flyir.CodegenError, match="not for amdgcn"):
        flyir.compile_hsaco(CALLS_LIBRARY, "gfx942", link_bitcode=[b'target triple = "x86_64-linux-gnu"\n'])
    with pytest.raises(OSError):
        flyir.compile_hsaco(CALLS_LIBRARY, "gfx942", link_bitcode=[tmp_path / "missing.bc"])


def test_llvm_options_hold_for_one_compilation():
    plain = flyir.emit_isa(STORE, "gfx942")
    options = {"enable-misched": False, "unroll-threshold": 5}
    assert flyir.emit_isa(STORE, "gfx942", llvm_options=options)
    # An option with an effect that shows: without loop strength reduction the address is computed anew.
    loop = LOOP.replace("STEPS", "1000")
    assert flyir.emit_isa(loop, "gfx942", llvm_options={"disable-lsr": True}) != flyir.emit_isa(loop, "gfx942")
    assert flyir.emit_isa(STORE, "gfx942") == plain
    with pytest.raises(flyir.CodegenError, match="Unknown LLVM option 'no-such-option'"):
        flyir.emit_isa(STORE, "gfx942", llvm_options={"no-such-option": 1})
    with pytest.raises(flyir.CodegenError, match="cannot take the value 'many'"):
        flyir.emit_isa(STORE, "gfx942", llvm_options={"amdgpu-early-inline-all": "many"})


def test_unknown_keyword_is_a_type_error():
    with pytest.raises(TypeError, match="unknown option colour; known: .*waves_per_eu"):
        flyir.compile_hsaco(STORE, "gfx942", colour="red")


def test_timings():
    timings: dict[str, float] = {}
    flyir.compile_to(STORE, "gfx942", "hsaco", timings=timings)
    assert set(timings) == {"llvm", "link"}
    assert timings["llvm"] > 0 and timings["link"] > 0


def test_line_table_names_source_lines(tmp_path):
    dwarfdump = shutil.which("llvm-dwarfdump-22") or shutil.which("llvm-dwarfdump", path="/usr/lib/llvm-22/bin")
    with ir.Context():
        module = ir.Module.parse(MODULE)
        plain = flyir.emit_isa(module, "gfx942", opt_level=0)
        isa = flyir.emit_isa(module, "gfx942", opt_level=0, debug_info=True)
        hsaco = flyir.compile_hsaco(module, "gfx942", opt_level=0, debug_info=True)
        assert "kernel.py" not in plain
    assert ".loc\t1 17 5" in isa and ".loc\t1 18 9" in isa
    if dwarfdump is None:
        pytest.skip("llvm-dwarfdump is not installed")
    path = tmp_path / "kernel.hsaco"
    path.write_bytes(hsaco)
    table = subprocess.run([dwarfdump, "--debug-line", str(path)], capture_output=True, text=True, check=True).stdout
    assert "kernel.py" in table
    rows = [line.split()[1:3] for line in table.splitlines() if line.startswith("0x")]
    assert ["17", "5"] in rows and ["18", "9"] in rows and ["19", "3"] in rows


def test_line_tables_of_a_kernel_that_a_helper_launches():
    """The module and the function then have call-site locations, which are no operation's of a function's body."""
    site = 'loc(callsite("helper.py":3:1 at callsite("between.py":4:1 at "kernel.py":9:1)))'
    text = MODULE.replace('} loc("kernel.py":16:1)', f"}} {site}").rstrip() + f" {site}\n"
    with ir.Context():
        isa = flyir.emit_isa(ir.Module.parse(text), "gfx942", opt_level=0, debug_info=True)
    assert "17 5" in isa and "18 9" in isa


def test_threads_get_the_same_code():
    expected = flyir.compile_hsaco(STORE, "gfx942")
    results: list[bytes] = []

    def work(number: int) -> None:
        options = {"llvm_options": {"enable-misched": True}} if number % 3 == 0 else {}
        for _ in range(5):
            results.append(flyir.compile_hsaco(STORE, "gfx942", **options))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 30 and set(results) == {expected}


def test_kernels_of_gfx1250_keep_to_256_registers():
    """Unless they say how many waves a SIMD has; other architectures have no such bound."""
    count = 300
    names = [f"%v{k}" for k in range(count)]
    places = "\n".join(f"  %q{k} = getelementptr i32, ptr addrspace(1) %p, i64 {k * 64}" for k in range(count))
    loads = "\n".join(f"  {v} = load volatile i32, ptr addrspace(1) %q{k}" for k, v in enumerate(names))
    stores = "\n".join(f"  store volatile i32 {v}, ptr addrspace(1) %q{k}" for k, v in enumerate(names))
    text = f"""
@lds = internal addrspace(3) global [LDS x i8] poison, align 16
define amdgpu_kernel void @k(ptr addrspace(1) %p) #0 {{
  store volatile i8 1, ptr addrspace(3) @lds
{places}
{loads}
  call void @llvm.amdgcn.s.barrier()
{stores}
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="64,64" }}
"""
    # With much LDS there are few waves, to which LLVM would leave more registers.
    for arch, lds in (("gfx1250", "16"), ("gfx1250:sramecc+", "16"), ("gfx1250", "200000")):
        code = text.replace("LDS", lds)
        assert "s_set_vgpr_msb" not in flyir.emit_isa(code, arch), arch
        assert flyir.kernel_resources(flyir.compile_hsaco(code, arch))["k"].vgprs <= 256
        assert flyir.kernel_resources(flyir.compile_hsaco(code, arch, waves_per_eu=1))["k"].vgprs > 256
    assert flyir.kernel_resources(flyir.compile_hsaco(text.replace("LDS", "16"), "gfx950"))["k"].vgprs > 256
