"""The suites that come with the project."""

import pytest

from thinwire.config import expand_suite, suite
from thinwire.plugins import ROOT

NAMES = [p.relative_to(ROOT / "config").with_suffix("").as_posix() for p in suite.suite_files()]


@pytest.mark.parametrize("name", NAMES)
def test_every_suite_is_valid_and_has_the_strong_baseline(name):
    """SSGD in full precision and in 16 bits, as the rules want it."""
    expand_suite.require_valid(name)
    ssgd = [
        cell.method.options.get("gradients", "full")
        for cell in expand_suite.cells(name)
        if cell.method.use == "ssgd"
    ]
    assert {"full", "bfloat16"} <= set(ssgd)


@pytest.mark.parametrize("claim", ["multi_step_delay", "hylo", "mp2", "hsgd", "daso"])
def test_every_publication_has_a_suite_with_ten_repetitions(claim):
    assert claim in {cell.method.use for cell in expand_suite.cells(f"claims/{claim}")}
    assert suite.load(f"claims/{claim}").repetitions == 10
