"""The target is a value that is passed, and part of every memoised builder's key."""

import ast
from pathlib import Path

import pytest

import flydsl.kernels
from flydsl.ir import get_arch
from flydsl.kernels.target import Target, builder, current_arch, target
from flydsl.utils import env

ROOT = Path(flydsl.kernels.__file__).parent


def test_facts_are_a_value():
    assert target("gfx1201") == target("gfx1201") != target("gfx1200")
    assert hash(target("gfx942")) == hash(target("gfx942"))
    assert target(target("gfx950")) is target("gfx950")
    assert target().name == current_arch()
    with pytest.raises(AttributeError):
        target("gfx942").wave = 32  # type: ignore[misc]
    with pytest.raises(ValueError, match="does not know the architecture 'gfx908'"):
        target("gfx908")


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250"])
def test_facts_are_those_that_the_compiler_has(arch):
    row, facts = get_arch(arch), target(arch)
    assert (facts.wave, facts.lds_bytes, facts.simds) == (row.wave_size, row.lds_bytes, row.simds_per_cu)
    assert (facts.wave_registers, facts.simd_registers) == (row.vgprs_per_wave, row.vgprs_per_simd)


def test_a_builder_is_memoised_by_target_and_arguments():
    calls = []

    @builder
    def build(n: int, *, target: Target):
        calls.append((n, target.name))
        return object()

    with env.override(arch="gfx942"):
        first = build(1)
        assert build(1) is first and build(1, target="gfx942") is first
        other = build(1, target=target("gfx950"))
    with env.override(arch="gfx950"):
        assert build(1) is other is not first
    assert calls == [(1, "gfx942"), (1, "gfx950")]


def test_a_builder_that_does_not_take_its_target_is_no_builder():
    with pytest.raises(TypeError, match=r"takes its target as a keyword: build\(..., \*, target: Target\)"):

        @builder
        def build(n: int):
            return n


def _decorators(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                call = decorator.func if isinstance(decorator, ast.Call) else decorator
                yield node, ast.unparse(call)


def _asks(tree):
    """Functions that ask for the current target."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and ast.unparse(call) in ("target()", "current()", "current_arch()"):
                    yield node.name


def test_nothing_below_an_operation_asks_for_the_current_target():
    entries = {  # where a caller begins who did not say: operations, forms with static arguments at the call, models
        "operation.py": {"run", "prepare"}, "torch_ops/__init__.py": {"_fake", "rule"}, "workspace.py": {"workspace"},
        "conv/older.py": {"_launcher", "launch"},
        "compat/gemm_a16w16.py": {"get_default_kwargs", "gemm_a16w16", "get_semaphore"},
        "compat/gemm_a16w16_gfx950.py": {"make_gemm_a16w16_gfx950_param"},
        "compat/gemm_callers.py": {"_operands", "flydsl_batched_gemm_mxfp4"},
        "compat/mxfp4_preshuffle.py": {"launch_gemm"},
        "compat/gemm_fp8fp4_gfx1250.py": {"launch_gemm_a8w8", "launch_gemm_a8w4_mxscale"},
        "norm/rms_builders.py": {"rmsnorm_direct"},
        "patching/report.py": {"__str__"}, "patching/rules.py": {"_lacking"}, "patching/parts.py": {"refuse_conv"},
        "patching/language.py": {"_replacements", "refuse_language_attention"},
        "comm/group.py": {"__init__"}, "comm/mega.py": {"__init__"}, "comm/op.py": {"_reduced_norm"},
        "comm/symmetric.py": {"__init__"}, "comm/transport.py": {"__init__"}, "tune.py": {"try_choice"},
        "compat/pa_decode_fp8.py": {"get_recommended_splits", "_operands", "get_pa_metadata"},
        "compat/moe_sorting.py": {"moe_softmax_sort_flydsl"}, "compat/moe_stages.py": {"flydsl_moe_stage1"},
        "compat/moe_gemm_2stage_mxscale_gfx1250.py": {"launch_moe_gemm_a8w4"},
        "rope/qk_norm.py": {"flydsl_qk_norm_rope_quant"},
        "compat/rdna_gemm.py": {"rdna3_gemm_autotuned", "pick_tile"},
    }
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name != "target.py":
            asking = set(_asks(ast.parse(path.read_text())))
            if asking:
                found[name] = asking
    assert found == entries


def _with_target():
    """Names of the classes that carry a target: a field of that class, or of another one that carries it."""
    fields = {}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                told = [ast.unparse(entry.annotation) for entry in node.body if isinstance(entry, ast.AnnAssign)]
                fields.setdefault(node.name, set()).update(told, map(ast.unparse, node.bases))
    found, before = {"Target"}, 0
    while before != len(found):
        before = len(found)
        found |= {name for name, told in fields.items() if told & found}
    return found


def _asked_at_the_call():
    """Older builders by their files, whose launchers ask for the target when they are called."""
    from flydsl.kernels import flash_attn_modules, pa_decode_fp8
    from flydsl.kernels.conv import older

    return {"conv/older.py": (older.compile_conv3d_implicit, older.compile_conv3d_implicit_fp8),
            "compat/flash_attn_modules.py": (flash_attn_modules.build_flash_attn_func_module_primary,
                                             flash_attn_modules.build_gqa_attn),
            "compat/pa_decode_fp8.py": (pa_decode_fp8.compile_pa_decode_tile, pa_decode_fp8.compile_pa_decode_sw,
                                        pa_decode_fp8.compile_pa_decode_sw_reduce,
                                        pa_decode_fp8.compile_pa_decode_metadata)}


def test_older_builders_are_memoised():
    """One launcher for each set of arguments, on every target, by the names that build others as well."""
    from flydsl.kernels import flash_attn_modules as flash

    heads, image = dict(num_heads=8, head_dim=128), (1, 16, 4, 6, 7, 16, 3, 3, 3, 1, 1, 1, 1, 1, 1)
    arguments = {
        "compile_conv3d_implicit": image, "compile_conv3d_implicit_fp8": image,
        "build_flash_attn_func_module_primary": heads, "build_gqa_attn": dict(sliding_window=(512, 0)),
        "compile_pa_decode_tile": (128, 8, 16, 4), "compile_pa_decode_sw": (128, 2),
        "compile_pa_decode_sw_reduce": dict(max_context_partition_num=2, query_seq_len=1, query_group_size=8,
                                            head_size=128, output_dtype_str="bf16"),
        "compile_pa_decode_metadata": {}}
    builders = {f.__name__: f for functions in _asked_at_the_call().values() for f in functions}
    assert set(builders) == set(arguments)
    calls = [(builders[name], given) for name, given in arguments.items()]
    calls += [(flash.build_flash_attn_dualwave_swp_module, heads),
              (flash.build_flash_attn_dualwave_swp_fp8_module, heads)]
    for build, given in calls:
        once, again = (build(**given) if isinstance(given, dict) else build(*given) for _ in range(2))
        assert once is again, build.__name__
    assert flash.build_gqa_attn(sliding_window=[512, 0]) is flash.build_gqa_attn(sliding_window=(512, 0))


def test_nothing_is_memoised_without_its_target():
    """What is kept for arguments without a target would be served for another one."""
    carriers = _with_target()
    of_no_target = {("host/arrays.py", "device_type"), ("host/tuned.py", "_table"), ("declared.py", "declarations"),
                    ("comm/group.py", "report"), ("patching/language.py", "_takes"),
                    ("host/weights.py", "begin"),
                    ("conv/older.py", "_searched")}  # what the search finds is kept by architecture
    of_no_target |= {(name, function.__name__) for name, functions in _asked_at_the_call().items()
                     for function in functions}
    for path in sorted(ROOT.rglob("*.py")):
        name, tree = path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())
        methods = {id(entry): node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
                   for entry in node.body}
        for function, decorator in _decorators(tree):
            keeps = decorator.endswith(("lru_cache", ".cache", "cached_property")) or decorator == "kept"
            if not keeps or name == "target.py":
                continue
            arguments = {ast.unparse(a.annotation) for a in function.args.args if a.annotation}
            arguments.add(methods.get(id(function), ""))
            assert arguments & carriers or (name, function.name) in of_no_target, (
                f"{name}: {function.name} has no target in its key")
