"""Control flow over device values: what rewritten `if`, `for` and `while` statements call while tracing."""
