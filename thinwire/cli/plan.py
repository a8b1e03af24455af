"""`thinwire plan`."""

import json
import math
from argparse import Namespace

from thinwire.base.errors import UserError
from thinwire.report.plan_table import Validated, rows, sentences
from thinwire.simulation.plan import MOST_RATE, Question, answers, computing_as, methods, network_of, stand_in
from thinwire.simulation.probe import Server, measure

_USUAL_MILLISECONDS, _MOST_MILLISECONDS = 0.005, 60_000  # of a link in one building; and of any


def plan_main(arguments: Namespace) -> int:
    """Simulate methods on a network and a link, and print them, the fastest first."""
    _require(arguments)
    if arguments.model is not None:
        cell, weights = network_of(arguments.model)
        network = f"{arguments.model} on {cell.dataset}: {weights:,} weights"
    else:
        cell, weights = stand_in(arguments.parameters)
        network = f"a GPT of {weights:,} weights in place of your network"
    rate, milliseconds = _link(arguments)
    question = Question(
        computing_as(cell, arguments.accelerator),
        arguments.workers,
        arguments.per_node,
        rate,
        milliseconds / 1e3,
        arguments.accelerator,
        arguments.step_seconds,
    )
    network += (
        f", batch {cell.recipe.batch} a worker"
        if arguments.step_seconds is None
        else f", whose passes take {arguments.step_seconds:g} s"
    )
    found, left = answers(question, methods())
    if not arguments.json:
        print(sentences(question, network, found, left))
        return 0
    validated = Validated.read(question.latency_seconds)
    content = {
        "network": network,
        "weights": weights,
        "workers": question.workers,
        "nodes": question.nodes,
        "rate_gbit_per_second": question.rate_gbit_per_second,
        "latency_seconds": question.latency_seconds,
        "accelerator": question.accelerator,
        "kind": "simulated",
        "validated": validated is not None and validated.holds(question.workers, rate, milliseconds / 1e3),
        "methods": rows(found, question.latency_seconds),
        "left_out": {one.label: one.reason for one in left},
    }
    print(json.dumps(content, indent=2, allow_nan=False))
    return 0


def _link(arguments: Namespace) -> tuple[float, float]:
    """The rate of a link in Gbit/s, and its latency in milliseconds.

    Raises:
        UserError: it should be measured, and nothing answers.
    """
    rate, milliseconds = arguments.rate, _USUAL_MILLISECONDS
    if arguments.probe is not None:
        measured = measure(Server.of(arguments.probe))
        rate = min(measured.to_bits_per_second, measured.from_bits_per_second, MOST_RATE * 1e9) / 1e9
        milliseconds = 1e3 * measured.round_trip_seconds / 2
    return rate, milliseconds if arguments.latency is None else arguments.latency


def _require(arguments: Namespace) -> None:
    """Require numbers that are possible.

    Raises:
        UserError: one is not.
    """
    limits = {
        "workers": ("a whole number", math.inf),
        "per_node": ("a whole number", math.inf),
        "parameters": ("a whole number", math.inf),
        "rate": ("Gbit/s", MOST_RATE),
        "latency": ("milliseconds", _MOST_MILLISECONDS),
        "step_seconds": ("seconds", math.inf),
    }
    for name, (unit, most) in limits.items():
        value = getattr(arguments, name)
        if value is not None and not (0 < value <= most and math.isfinite(value)):
            limit = f" and at most {most:,g}" if math.isfinite(most) else ""
            raise UserError(f"--{name.replace('_', '-')} {value:g}: give {unit} above 0{limit}")
    if arguments.parameters is not None and arguments.step_seconds is None:
        raise UserError(
            "--parameters needs --step-seconds S: how long the passes of your network take is not known here"
        )
