"""Tables of rotary embedding against their definitions, angle by angle."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flydsl.kernels.rope import rotary_tables

pytestmark = pytest.mark.one_arch

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}


def angles_of(tables):
    """The speed of each pair (angle at position 1), for speeds below pi."""
    cos, sin = (t.astype(np.float64) for t in tables)
    return np.arctan2(sin[1], cos[1]), np.hypot(cos[1], sin[1])


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([10000.0, 500000.0, 37.0]))
def test_angles_are_positions_times_a_geometric_progression(rows, pairs, base):
    cos, sin = rotary_tables(rows, 2 * pairs, base=base)
    assert cos.shape == sin.shape == (rows, pairs) and cos.dtype == sin.dtype == np.float32
    for i in range(pairs):
        for p in (0, rows - 1):
            angle = p * base ** (-2 * i / (2 * pairs))
            assert cos[p, i] == pytest.approx(math.cos(angle), abs=1e-6)
            assert sin[p, i] == pytest.approx(math.sin(angle), abs=1e-6)


def test_linear_scaling_stretches_positions():
    plain, stretched = rotary_tables(16, 8), rotary_tables(61, 8, scaling={"type": "linear", "factor": 4})
    for a, b in zip(plain, stretched, strict=True):
        assert np.allclose(a, b[::4], atol=1e-6)


def test_llama3_keeps_fast_angles_and_stretches_slow_ones():
    speeds, size = angles_of(rotary_tables(2, 32, scaling=LLAMA3))
    assert np.allclose(size, 1)
    seen = set()
    for i, speed in enumerate(speeds):
        plain = 10000.0 ** (-i / 16)
        length = 2 * math.pi / plain
        if length < 64 / 4:
            expected, kind = plain, "fast"
        elif length > 64 / 1:
            expected, kind = plain / 8, "slow"
        else:
            smooth = (64 / length - 1) / (4 - 1)
            expected, kind = (1 - smooth) * plain / 8 + smooth * plain, "between"
        seen.add(kind)
        assert speed == pytest.approx(expected, rel=1e-5)
    assert seen == {"fast", "slow", "between"}


def test_yarn_mixes_by_turns_and_scales_both_tables():
    speeds, size = angles_of(rotary_tables(2, 64, scaling=YARN | {"truncate": False}))
    assert np.allclose(size, 0.1 * math.log(4) + 1, rtol=1e-6)

    def pair(turns):
        return 32 * math.log(256 / (2 * math.pi * turns)) / math.log(10000)

    low, high = max(pair(32), 0), min(pair(1), 63)
    assert 0 <= low < high < 32
    for i, speed in enumerate(speeds):
        stretched = min(max((i - low) / (high - low), 0), 1)
        plain = 10000.0 ** (-i / 32)
        assert speed == pytest.approx(plain * (1 - stretched) + plain / 4 * stretched, rel=1e-5)
    given_size = angles_of(rotary_tables(2, 64, scaling=YARN | {"attention_factor": 1.25}))[1]
    assert np.allclose(given_size, 1.25, rtol=1e-6)
    both = angles_of(rotary_tables(2, 64, scaling=YARN | {"mscale": 0.7, "mscale_all_dim": 1.0}))[1]
    assert np.allclose(both, (0.07 * math.log(4) + 1) / (0.1 * math.log(4) + 1), rtol=1e-6)


@pytest.mark.parametrize("scaling", [LLAMA3, YARN, YARN | {"beta_fast": 16, "beta_slow": 2}, YARN | {"truncate": False},
                                     YARN | {"mscale": 0.707, "mscale_all_dim": 1.0}])
def test_tables_are_those_of_transformers(scaling):
    transformers = pytest.importorskip("transformers")
    utilities = pytest.importorskip("transformers.modeling_rope_utils")
    config = transformers.LlamaConfig(hidden_size=256, num_attention_heads=4, max_position_embeddings=1024)
    config.rope_parameters = {"rope_theta": 10000.0, **scaling}
    speeds, size = utilities.ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, "cpu")
    ours, found = angles_of(rotary_tables(2, 64, scaling=scaling))
    assert np.allclose(found, size, rtol=1e-6) and np.allclose(ours, speeds.numpy(), rtol=1e-5)


def test_torch_tensors_of_a_device():
    torch = pytest.importorskip("torch")
    for table, array in zip(rotary_tables(5, 8, device="cpu"), rotary_tables(5, 8), strict=True):
        assert table.dtype == torch.float32 and np.array_equal(table.numpy(), array)


@pytest.mark.parametrize(("arguments", "text"), [
    ((0, 8), "positions and base must be positive, got 0"), ((4, 7), "even and positive, got 7"),
    ((4, 8, {"rope_type": "ntk"}), "one of default, linear, llama3, yarn, got 'ntk'"),
    ((4, 8, {"rope_type": "yarn", "factor": 2.0}), "yarn scaling needs factor, original_max_position_embeddings and"),
    ((4, 8, {"rope_type": "linear", "factor": 2.0, "beta_fast": 1}), "linear scaling needs factor, got beta_fast"),
    ((4, 8, {"rope_type": "linear", "factor": 0.5}), "factor must be at least 1"),
    ((4, 8, {"rope_theta": 5e5}), "rope_theta 500000.0, base is 10000.0"),
])
def test_what_is_refused(arguments, text):
    with pytest.raises(ValueError, match="rotary_tables: .*" + text):
        rotary_tables(*arguments[:2], scaling=arguments[2] if len(arguments) > 2 else None)
