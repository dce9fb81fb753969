"""Import time of the front end in a new process (byte code cached)."""

from figures import Figure, median_of

CODE = """
import json, time
start = time.perf_counter()
import {modules}
print(json.dumps({{"s": time.perf_counter() - start}}))
"""


def measure() -> list[Figure]:
    """Seconds to import, median of five processes."""
    found = []
    for modules, budget in (("flydsl.compiler, flydsl.expr", 0.1), ("flydsl.layout", None), ("flydsl.runtime", None)):
        code = CODE.format(modules=modules)
        median_of(code, "s", repeat=1)  # writes the byte code
        found.append(Figure(f"import {modules}", median_of(code, "s"), "s", budget))
    return found
