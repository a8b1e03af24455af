"""`thinwire simulate`, `times`, `hsgd_ratio` and `plan`."""

import json
import math
import sys
from argparse import Namespace
from functools import partial

import pandas as pd
from pydantic import ValidationError

from thinwire.base.errors import UserError
from thinwire.base.files import aside
from thinwire.base.folders import suggested_command
from thinwire.base.options import problems
from thinwire.config.expand import require_valid
from thinwire.config.grid_subset import Subset
from thinwire.config.hardware import load_cluster, unlike_recipe
from thinwire.config.suite import load
from thinwire.config.suite_schema import Simulate
from thinwire.records.provenance import git_state, processor
from thinwire.report.plan_table import Validated, rows, sentences
from thinwire.report.report_files import fixed, with_table_digits
from thinwire.simulation.ladder_ratio import LADDER, RATIO_CLUSTER, RATIO_DEVICE, ends_of_the_ladder, ratios
from thinwire.simulation.plan import MOST_RATE, Question, answers, computing_as, methods, network_of, stand_in
from thinwire.simulation.probe import Server, measure
from thinwire.simulation.simulated_file import path_of_times, write
from thinwire.simulation.suite_times import (
    described,
    fastest,
    silent,
    simulate_suite,
    simulate_without_data,
)

say = partial(print, flush=True)
_USUAL_MILLISECONDS, _MOST_MILLISECONDS = 0.005, 60_000  # of a link in one building; and of any


def simulate_main(arguments: Namespace) -> int:
    """Simulate every method of a suite, and write and print its times."""
    require_valid(arguments.suite)
    declared = load(arguments.suite).simulate
    settings = _settings(arguments, declared)
    subset = Subset.of_words(arguments.only)
    warnings: list[str] = []
    results = arguments.results.absolute()
    found = simulate_suite(arguments.suite, results, settings, subset, say, warnings.append)
    computing = settings.accelerator or f"a core of {processor()}"
    found = found.assign(computing=computing, revision=git_state()["revision"])
    path = write(found, arguments.results, arguments.suite)
    print("\n".join(described(found, settings.accelerator)))
    print(path)
    for warning in dict.fromkeys(warnings):
        print(f"{warning}.", file=sys.stderr)
    if declared not in (None, settings):
        again = suggested_command("simulate", arguments.suite, results=arguments.results)
        print(
            f"These are other times than config/{arguments.suite}.yaml asks for: {again} makes those.",
            file=sys.stderr,
        )
    return 0


def times_main(arguments: Namespace) -> int:
    """Simulate the methods of a suite without its data, write what follows, and print the fastest."""
    from thinwire.report import regimes  # and matplotlib, which other commands do not need

    require_valid(arguments.suite)
    if arguments.jobs < 1:
        raise UserError(f"--jobs {arguments.jobs}: give at least 1")
    subset = Subset.of_words(arguments.only)
    found = simulate_without_data(arguments.suite, subset, arguments.jobs, say)
    path = path_of_times(arguments.results, arguments.suite)
    with aside(path) as scratch:
        with_table_digits(found).to_csv(scratch, index=False)
    print("\n".join(fastest(found)))
    print("\n".join(map(str, [path, *regimes.write(arguments.results)])))
    for warning in silent(found, arguments.suite):
        print(f"{warning}.", file=sys.stderr)
    return 0


def _settings(arguments: Namespace, declared: Simulate | None) -> Simulate:
    """What the suite declares, with what the arguments say instead; a UserError if that cannot be."""
    given: dict[str, object] = {} if declared is None else declared.model_dump()
    chosen = {"clusters": arguments.cluster, "workers": arguments.workers}
    given |= {name: value for name, value in chosen.items() if value}
    if arguments.steps is not None:
        given["steps"] = arguments.steps
    if not given.get("clusters"):
        raise UserError(
            f"config/{arguments.suite}.yaml has no `simulate:`: name a cluster of config/clusters/ with "
            "--cluster NAME"
        )
    try:
        return Simulate.model_validate(given)
    except ValidationError as error:
        raise UserError("; ".join(problems(error))) from None


def hsgd_ratio_main(arguments: Namespace) -> int:
    """Simulate the ratio between the ends of HSGD's ladder, and write and print it."""
    from thinwire.report.figures.steps import write_hsgd_ratio  # and matplotlib

    cluster = load_cluster(RATIO_CLUSTER)
    found = with_table_digits(pd.DataFrame(ratios(*ends_of_the_ladder(cluster.workers_per_node), cluster)))
    paths = write_hsgd_ratio(found, arguments.results)
    for nodes, own in found.groupby("nodes"):
        least, most = fixed(own.ratio.min(), 2), fixed(own.ratio.max(), 2)
        print(f"{nodes} nodes: a ratio of {least} to {most} (simulated)")
    print("\n".join(map(str, paths)))
    if unlike := unlike_recipe(RATIO_DEVICE, load(LADDER).recipe.precision):
        print(f"{unlike}.", file=sys.stderr)
    return 0


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
    """The rate of a link in Gbit/s, and its latency in ms; a UserError: nothing answers that measures it."""
    rate, milliseconds = arguments.rate, _USUAL_MILLISECONDS
    if arguments.probe is not None:
        measured = measure(Server.of(arguments.probe))
        rate = min(measured.to_bits_per_second, measured.from_bits_per_second, MOST_RATE * 1e9) / 1e9
        milliseconds = 1e3 * measured.round_trip_seconds / 2
    return rate, milliseconds if arguments.latency is None else arguments.latency


def _require(arguments: Namespace) -> None:
    """Require numbers that are possible; a UserError names one that is not."""
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
