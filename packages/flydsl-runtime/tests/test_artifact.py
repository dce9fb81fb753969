"""Artifacts from a stranger: whatever the header says, a file is an artifact or an ArtifactError."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from runtime_plans import HSACO, plan

from flydsl.runtime.artifact import MAGIC, Artifact, ArtifactError


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
    if type(own[name]) is type(value) and name not in ("hsaco_size", "source_size"):
        assert Artifact.parse(sealed({**own, name: value}))
        return
    with pytest.raises(ArtifactError, match="damaged"):
        Artifact.parse(sealed({**own, name: value}))
    assert Artifact.from_bytes(sealed({**own, name: value})) is None
    del own[name]
    with pytest.raises(ArtifactError, match=f"the header has no '{name}'"):
        Artifact.parse(sealed(own))
