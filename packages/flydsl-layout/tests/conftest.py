import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))
# Of all files: a profile that a file loads would hold for those that are collected after it, too.
settings.register_profile("layout", deadline=None, suppress_health_check=list(HealthCheck),
                          max_examples=int(os.environ.get("LAYOUT_EXAMPLES", "150")))
settings.load_profile("layout")
