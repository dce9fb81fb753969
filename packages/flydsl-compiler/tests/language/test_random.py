"""Philox-4x32 against an independent NumPy implementation and the published known answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def philox(seed: np.ndarray, offset: np.ndarray, rounds: int = 10) -> list[np.ndarray]:
    """Philox-4x32 of 64-bit keys and counters, words as uint32."""
    mask = np.uint64(0xFFFFFFFF)
    key = [np.uint64(seed) & mask, np.uint64(seed) >> np.uint64(32)]
    offset = offset.astype(np.uint64)
    c = [offset & mask, offset >> np.uint64(32), np.zeros_like(offset), np.zeros_like(offset)]
    for _ in range(rounds):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ key[0], b & mask, (a >> np.uint64(32)) ^ c[3] ^ key[1], a & mask]
        key = [(key[0] + np.uint64(0x9E3779B9)) & mask, (key[1] + np.uint64(0xBB67AE85)) & mask]
    return [w.astype(np.uint32) for w in c]


def test_known_answer_of_the_reference() -> None:
    words = philox(np.uint64(0), np.zeros(1, np.uint64))
    assert [hex(int(w[0])) for w in words] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]


@pytest.mark.parametrize(("seed", "text"), [(0, "0"), (1234, "fx.Int32(1234)"), (2**40 + 7, "2**40 + 7")])
@pytest.mark.parametrize("rounds", [10, 7])
def test_words(run: Any, seed: int, text: str, rounds: int) -> None:
    expected = philox(np.uint64(seed), np.arange(64), rounds)
    for i, word in enumerate(expected):
        out = run(f"Y[t] = fx.Int32(fx.random.randint4x({text}, t, {rounds})[{i}])", x=np.zeros(64, np.int32))
        np.testing.assert_array_equal(out.view(np.uint32), word)


def test_uniform_numbers(run: Any) -> None:
    out = run("Y[t] = fx.random.rand(42, t)")
    word = philox(np.uint64(42), np.arange(64))[0].view(np.int32)
    folded = np.where(word < 0, ~word, word).astype(np.float32)
    np.testing.assert_allclose(out, folded * np.float32(4.6566127342e-10), rtol=1e-6)
    assert (out >= 0).all() and (out < 1).all()


def test_vectors_of_offsets(run: Any) -> None:
    out = run("v = fx.Int32x4([t, t + 64, t + 128, t + 192])\nY[t] = fx.Int32(fx.random.randint(7, v)[2])",
              x=np.zeros(64, np.int32))
    np.testing.assert_array_equal(out.view(np.uint32), philox(np.uint64(7), np.arange(64) + 128)[0])
