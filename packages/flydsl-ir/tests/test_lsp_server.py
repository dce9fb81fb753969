"""The language server knows the dialects."""

import json
import subprocess

from flydsl import ir


def message(body: dict) -> bytes:
    text = json.dumps({"jsonrpc": "2.0", **body})
    return f"Content-Length: {len(text)}\r\n\r\n{text}".encode()


def test_a_wrong_type_is_reported_at_its_place():
    source = "func.func private @f(!fly.layout<(4,8)>)"
    session = b"".join(
        [
            message(
                {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}}
            ),
            message(
                {
                    "method": "textDocument/didOpen",
                    "params": {
                        "textDocument": {
                            "uri": "test:///kernel.mlir",
                            "languageId": "mlir",
                            "version": 1,
                            "text": source,
                        }
                    },
                }
            ),
            message({"id": 2, "method": "shutdown", "params": {}}),
            message({"method": "exit", "params": {}}),
        ]
    )
    result = subprocess.run([str(ir.find_tool("fly-lsp-server"))], input=session, capture_output=True, timeout=60)
    text = result.stdout.decode()
    assert "publishDiagnostics" in text and '"severity":1' in text and "expected ':'" in text
