"""The target is a value that is passed, and part of every memoised builder's key."""

import ast
from pathlib import Path

import pytest

import flydsl.kernels
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
    with pytest.raises(ValueError, match="does not know the architecture 'gfx90a'"):
        target("gfx90a")


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
        "op.py": {"run", "prepare"}, "torch_ops/__init__.py": {"_fake", "rule"}, "workspace.py": {"workspace"},
        "gemm/dense.py": {"get_default_kwargs", "gemm_a16w16", "get_semaphore"},
        "gemm/a16w16.py": {"make_gemm_a16w16_gfx950_param"}, "gemm/callers.py": {"_operands"},
        "gemm/mx.py": {"launch_gemm"}, "gemm/gfx1250.py": {"launch_gemm_a8w8"},
        "gemm/fp8fp4.py": {"launch_gemm_a8w4_mxscale"}, "norm/rms_builders.py": {"rmsnorm_direct"},
        "patching/rules.py": {"__str__", "_no_products"}, "patching/parts.py": {"refuse_conv"},
        "patching/language.py": {"_replacements", "refuse_language_attention"},
        "comm/group.py": {"__init__"}, "comm/op.py": {"all_reduce_rmsnorm"}, "gemm/tune.py": {"try_choice"},
        "moe/callers.py": {"moe_softmax_sort_flydsl"}, "rope/qk_norm.py": {"flydsl_qk_norm_rope_quant"},
    }
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name != "target.py":
            asking = set(_asks(ast.parse(path.read_text())))
            if asking:
                found[name] = asking
    assert found == entries


def test_nothing_else_is_memoised():
    """What is kept for arguments without a target would be served for another one."""
    target_in_argument = {
        ("gemm/a16w16.py", "_launcher"), ("gemm/dense.py", "dense_launcher"), ("comm/exchange.py", "build_exchange"),
        ("comm/fused.py", "build_reduced_norm"), ("moe/experts.py", "experts_launcher"),
        ("moe/gradient.py", "product_launcher"), ("moe/mlp.py", "_launcher"),
        ("decode/config.py", "key_chunk"), ("decode/config.py", "value_chunk"),
    }
    of_no_target = {("host/arrays.py", "device_type"), ("host/tuned.py", "_table"), ("op.py", "declarations"),
                    ("comm/op.py", "_report"), ("patching/language.py", "_takes")}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for function, decorator in _decorators(ast.parse(path.read_text())):
            if decorator.endswith(("lru_cache", ".cache", "cached_property")) and name != "target.py":
                allowed = target_in_argument | of_no_target
                assert (name, function.name) in allowed, f"{name}: {function.name} has no target in its key"
