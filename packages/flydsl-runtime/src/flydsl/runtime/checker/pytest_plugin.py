"""Findings of the simulator's checks as failures of tests: ``pytest --flydsl-check[=race,uninit]``.

Without the option nothing is done. With it every test and its fixtures run under :func:`flydsl.runtime.checked`,
whatever launches their kernels (FlyDSL, Triton on the simulator, calls of HIP in the process), and fail if something
was found. ``@pytest.mark.flydsl_check("race")`` names other checks for a test; without a name it is not checked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ..checking import CHECKS, CheckReport, checked

DEFAULT = ",".join(CHECKS[:4])


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("flydsl", "kernels on the simulator of flydsl-runtime")
    group.addoption(
        "--flydsl-check", nargs="?", const=DEFAULT, metavar="CHECKS",
        help=f"fail tests whose kernels have races, overruns, ...: names of {', '.join(CHECKS)} (default: {DEFAULT})",
    )


def _names(text: str) -> list[str]:
    names = text.replace(",", " ").split()
    if unknown := [name for name in names if name not in CHECKS]:
        raise pytest.UsageError(f"--flydsl-check: unknown check {unknown[0]!r}; there are {', '.join(CHECKS)} (named "
                                "behind '=': --flydsl-check=race; without names the option stands behind the files)")
    return names


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "flydsl_check(*checks): what --flydsl-check checks in this test; nothing if it names nothing")
    if config.getoption("--flydsl-check") is not None:
        _names(config.getoption("--flydsl-check"))
        os.environ.setdefault("FLYDSL_RUNTIME_KIND", "sim")  # checks are made by the simulator


def _checks_of(item: pytest.Item) -> list[str]:
    option = item.config.getoption("--flydsl-check")
    if option is None:
        return []
    marker = item.get_closest_marker("flydsl_check")
    return _names(option) if marker is None else _names(" ".join(marker.args))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Kernels of the fixtures: their findings are errors of the first test that needs them."""
    return (yield from _checked(item, "setup"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    return (yield from _checked(item, "call"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    return (yield from _checked(item, "teardown"))


def _checked(item: pytest.Item, phase: str) -> Iterator[None]:
    checks = _checks_of(item)
    if not checks:
        return (yield)
    try:
        with checked(*checks) as report:
            result = yield
    except BaseException:
        if report:  # beside the failure that the test has by itself
            item.add_report_section(phase, "findings of flydsl", _text(report, checks))
        raise
    if report:
        pytest.fail(_text(report, checks), pytrace=False)
    return result


def _text(report: CheckReport, checks: list[str]) -> str:
    from .findings import unique
    from .reports import finding_text

    found = unique(report)
    return "\n\n".join([f"{len(found)} finding(s) of the checks {', '.join(checks)}:", *map(finding_text, found)])
