"""Artifacts from a stranger: whatever the header says, a file is an artifact or an ArtifactError."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from typing import Any

import pytest
from runtime_plans import HSACO, plan

from flydsl.runtime.artifact import MAGIC, Artifact, ArtifactError, read_header


def sealed(header: Any) -> bytes:
    """A file with this header, whose checksum is right."""
    text = json.dumps(header).encode()
    body = MAGIC + len(text).to_bytes(8, "little") + text + HSACO
    return body + hashlib.sha256(body).digest()


def header() -> dict[str, Any]:
    data = Artifact("f", "gfx942", plan([], []), HSACO).to_bytes()
    start = len(MAGIC) + 8
    found: dict[str, Any] = json.loads(data[start : start + int.from_bytes(data[len(MAGIC) : start], "little")])
    return found


def test_a_file_is_read_back():
    assert Artifact.parse(sealed(header())) == Artifact("f", "gfx942", plan([], []), HSACO)


@pytest.mark.parametrize("name", [name for name in header() if name != "format"])
@pytest.mark.parametrize("value", [None, "text", -1, 2**70, [], {}, 0.5])
def test_every_entry_is_of_its_type(name, value):
    own = header()
    if type(own[name]) is type(value) and not name.endswith("_size"):
        assert Artifact.parse(sealed({**own, name: value}))
        return
    with pytest.raises(ArtifactError, match="damaged"):
        Artifact.parse(sealed({**own, name: value}))
    assert Artifact.from_bytes(sealed({**own, name: value})) is None
    del own[name]
    with pytest.raises(ArtifactError, match=f"the header has no '{name}'"):
        Artifact.parse(sealed(own))


def test_what_it_was_made_from_is_behind_the_header():
    artifact = Artifact("f", "gfx942", plan([], []), HSACO, source=zlib.compress(b"module {}"))
    assert artifact.inputs == {}
    inputs = {"arguments": {"a": ["int", 1]}, "parts": {"helper": "x" * 1000}}
    artifact.pack_inputs(inputs)
    data = artifact.to_bytes()
    found = Artifact.parse(data)
    assert found == artifact and found.inputs == inputs and found.source_ir == "module {}"
    assert "helper" not in json.dumps(read_header(io.BytesIO(data), len(data)))


@pytest.mark.parametrize("packed", [b"no stream", zlib.compress(b"no JSON"), zlib.compress(b"[1]"),
                                    zlib.compress(b"[" * 100_000)])
def test_what_it_was_made_from_may_be_damaged(packed):
    """Whoever wrote the file also made its checksum."""
    found = Artifact.parse(Artifact("f", "gfx942", plan([], []), HSACO, packed_inputs=packed).to_bytes())
    with pytest.raises(ArtifactError, match="damaged: what it was compiled from"):
        _ = found.inputs


def test_a_header_of_a_file_of_another_size_is_refused():
    data = Artifact("f", "gfx942", plan([], []), HSACO).to_bytes()
    assert read_header(io.BytesIO(data), len(data)) == header()
    for other in (data[:-1], data + b"\0", data[: len(data) // 2]):
        with pytest.raises(ArtifactError, match="damaged"):
            read_header(io.BytesIO(other), len(other))
    for other in (b"", data[:20], b"\0" + data):
        with pytest.raises(ArtifactError, match="not a FlyDSL artifact"):
            read_header(io.BytesIO(other), len(other))
