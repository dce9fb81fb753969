"""``python -m flydsl.compiler.cli``: the command ``flydsl``."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
