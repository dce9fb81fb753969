"""From Python source to a function that can be traced: control flow is rewritten in the syntax tree."""
