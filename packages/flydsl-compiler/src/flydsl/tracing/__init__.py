"""What the language and the compiler both need: protocols, diagnostics, the trace in progress, lazy modules."""

from .without_ir import install

install()
