"""From the traced module to the code object: the pass pipeline, code generation, and what checks their result."""
