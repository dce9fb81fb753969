"""The row operators need NumPy alone."""

import subprocess
import sys

SCRIPT = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, NoTorch())
import numpy as np
from flydsl.kernels import ops, quant

x = np.random.default_rng(3).standard_normal((7, 100)).astype(np.float32)
np.testing.assert_array_equal(ops.add(x, x), 2 * x)
try:
    ops.mlp(*[np.zeros(shape, np.float16) for shape in ((5, 64), (128, 64), (64, 64))])
except TypeError as error:
    assert "mlp: torch is needed" in str(error)
else:
    raise AssertionError("mlp without torch")
assert not hasattr(quant, "no_such_name")
assert "torch" not in sys.modules
"""


def test_operators_without_torch():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
