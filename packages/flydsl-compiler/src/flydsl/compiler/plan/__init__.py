"""The host side of a traced module as a launch plan: instructions that the runtime evaluates."""
