"""`thinwire simulate`, `times`, `hsgd_ratio` and `tuned`."""

import sys
from argparse import Namespace
from functools import partial

import pandas as pd
from pydantic import ValidationError

from thinwire.base.errors import UserError
from thinwire.base.files import aside
from thinwire.base.learning import LearningTask
from thinwire.base.names import suggested_command
from thinwire.base.options import problems
from thinwire.config import hardware, tuned, tuning_space
from thinwire.config import suite as suites
from thinwire.config.configuration import Subset
from thinwire.config.entries import baselines, task_of
from thinwire.config.expand import require_valid
from thinwire.config.hardware import unlike_recipe
from thinwire.config.suite import load
from thinwire.config.suite_schema import Simulate
from thinwire.config.trials import PREFIX
from thinwire.config.tuned import Choice
from thinwire.plugins import show
from thinwire.records.provenance import git_state, processor
from thinwire.report import regimes, tuning
from thinwire.report.figures.steps import write_hsgd_ratio
from thinwire.report.report_files import fixed, with_table_digits
from thinwire.simulation.ladder_ratio import (
    LADDER,
    RATIO_CLUSTER,
    RATIO_DEVICE,
    ends_of_the_ladder,
    ratios,
)
from thinwire.simulation.simulated_file import path_of_times, write
from thinwire.simulation.suite_times import described, fastest, simulate_suite, simulate_without_data

say = partial(print, flush=True)


def simulate_main(arguments: Namespace) -> int:
    """Simulate every method of a suite, and write and print its times."""
    require_valid(arguments.suite)
    declared = load(arguments.suite).simulate
    settings = _settings(arguments, declared)
    subset = Subset.of_words(arguments.only)
    warnings: list[str] = []
    results = arguments.results.absolute()
    rows = simulate_suite(arguments.suite, results, settings, subset, say, warnings.append)
    computing = settings.accelerator or f"a core of {processor()}"
    rows = rows.assign(computing=computing, revision=git_state()["revision"])
    path = write(rows, arguments.results, arguments.suite)
    print("\n".join(described(rows, settings.accelerator)))
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
    require_valid(arguments.suite)
    if arguments.jobs < 1:
        raise UserError(f"--jobs {arguments.jobs}: give at least 1")
    subset = Subset.of_words(arguments.only)
    rows = simulate_without_data(arguments.suite, subset, arguments.jobs, say)
    path = path_of_times(arguments.results, arguments.suite)
    with aside(path) as scratch:
        with_table_digits(rows).to_csv(scratch, index=False)
    print("\n".join(fastest(rows)))
    print("\n".join(map(str, [path, *regimes.write(arguments.results)])))
    return 0


def _settings(arguments: Namespace, declared: Simulate | None) -> Simulate:
    """What to simulate: as the suite declares it, unless the arguments say something else.

    Raises:
        UserError: neither names a cluster, or a number is impossible.
    """
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
    cluster = hardware.load_cluster(RATIO_CLUSTER)
    rows = with_table_digits(pd.DataFrame(ratios(*ends_of_the_ladder(cluster.workers_per_node), cluster)))
    paths = write_hsgd_ratio(rows, arguments.results)
    for nodes, own in rows.groupby("nodes"):
        least, most = fixed(own.ratio.min(), 2), fixed(own.ratio.max(), 2)
        print(f"{nodes} nodes: a ratio of {least} to {most} (simulated)")
    print("\n".join(map(str, paths)))
    _say_if_unlike(RATIO_DEVICE, LADDER)
    return 0


def _say_if_unlike(accelerator: str, suite: str) -> None:
    if unlike := unlike_recipe(accelerator, load(suite).recipe.precision):
        print(f"{unlike}.", file=sys.stderr)


def tuned_main(arguments: Namespace) -> int:
    """Choose from the trials of a tuning, and write the choice, its record and its figure."""
    name = arguments.suite
    require_valid(f"{PREFIX}{name}")
    runs, missing = tuning.runs_of_trials(name, arguments.results)
    if missing:
        if len(runs):
            tuning.write_runs(name, runs)
        of = f"{len(runs)} runs of {PREFIX}{name} are there, and {len(missing)} are missing"
        print(f"{of}, the first {missing[0]}: `{tuned.command(name)}` makes them", file=sys.stderr)
        return 1
    made = tuning.write_tuned(name, runs)
    folder = arguments.results / "figures" / f"{PREFIX}{name}"
    suite = suites.read(suites.path_of(name))
    task = task_of(suite)
    space = tuning_space.read(name)
    first = runs[runs.repetition < space.repetitions]
    tables = [tuning.trials(tuning.at_place(first, place)) for place in space.places]
    tuning.write_figure(tables, folder, task, baselines(suite))
    for label, chosen in made.methods.items():
        if chosen.inherits is not None:
            print(f"{label}: as {chosen.inherits}, because it computes the same")
        for place, choice in chosen.at.items():
            which = label if len(space.places) == 1 else f"{label}, {place}"
            print(_line(which, choice, task))
            for key, end in choice.at_edge.items():
                at_edge = f"the best {key} is the {end} that was tried: raise `trials`, or widen its range"
                print(f"{which}: {at_edge}", file=sys.stderr)
            if choice.score(task) is None:
                print(f"{which}: no trial has ended, so it keeps the suite's own recipe", file=sys.stderr)
    print(f"{show(tuned.path_of(name))}\n{show(tuned.trials_path(name))}\n{folder / tuning.NAME}.pdf")
    return 0


def _line(label: str, choice: Choice, task: LearningTask) -> str:
    values = {**choice.recipe.values, **choice.options}
    shown = ", ".join(f"{key} {value:g}" for key, value in values.items())
    score = choice.score(task)
    reached = f"no {task.score}" if score is None else task.shown(score)
    return f"{label}: trial {choice.trial}, {reached}: {shown}"
