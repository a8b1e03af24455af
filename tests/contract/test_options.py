"""The contract with other options than those for short runs: options that change what is sent, or when.

Checks of the source alone are not repeated, nor is the comparison with SSGD, which has options of its own.
"""

from typing import Any

import pytest

from tests.contract.conftest import Subject, perform
from tests.contract.test_on_processes import EVERY
from thinwire import plugins

FIXED = {"min_interval": 3, "max_interval": 3}
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("ssgd", {"overlap": False}),
    ("ps_sgd", {"pipelined": False}),
    ("ps_sgd", {"pipelined": False, "servers": "one"}),
    ("hsgd", {"gradients": "bfloat16"}),
    ("hylo", {"compression": "uniform_two_bits"}),
    ("hylo", {"compression": "uniform_kernels", "importance": "random"}),
    ("hylo", {"residual": False}),
    ("multi_step_delay", {"order": "fifo", "delay": 0, "slice": 7, "credit": 10, **FIXED}),
    ("multi_step_delay", {"local_momentum": True, **FIXED}),
    ("daso", {"fixed_skips": 4, "fixed_wait": 0}),
    ("daso", {"fixed_skips": 3, "fixed_wait": 2, "control": "published"}),
    ("daso", {"warmup_epochs": 0, "match_progress": True}),
    ("mp2", {"predictor": "constant"}),
    ("mp2", {"preset": "published", "predictor_epochs": 30, "bsp_workers": 8}),
    ("sign_sgd", {"rule": "two_sided"}),
]
NOT_REPEATED = (
    "describes_itself",
    "communicates_through_the_channels_only",
    "equals_ssgd_with_the_options_it_declares",
    "equals_ssgd_with_other_optimizers-adamw",
    "equals_ssgd_with_other_optimizers-muon",
)
# What such an option is most likely to break; `make test` leaves the other checks out. A run that resumes to
# the same bits has the same bits every time.
QUICK = (
    "every_byte_is_metered",
    "resumes_to_the_same_bits-6",
    "every_message_in_flight_is_received",
)
CHECKS = {name: check for name, check in EVERY.items() if name not in NOT_REPEATED}


def label(case):
    name, options = case
    return "-".join([name, *(f"{option}={value}" for option, value in options.items())])


@pytest.fixture(params=OPTIONS, ids=label)
def with_options(request):
    """A method whose options for short runs are changed."""
    name, options = request.param
    plugin = plugins.get("method", name)
    method = plugin.load()
    own = {"short": {**method.short, **options}}
    if "prepare" in vars(method):
        own["prepare"] = vars(method)["prepare"]  # which the engine looks for in the class itself
    changed = type("Method", (method,), own)
    return Subject(name, plugin.path, changed)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in CHECKS]
)
def test_a_method_with_these_options_keeps_the_contract(name, with_options, monkeypatch, tmp_path):
    check, parameters = CHECKS[name]
    perform(check, with_options, monkeypatch, tmp_path, **parameters)
