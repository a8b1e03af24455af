"""`thinwire tuned SUITE`."""

import sys
from argparse import Namespace

from thinwire.config import suite as suites
from thinwire.config import tuned
from thinwire.config.baselines import baselines
from thinwire.config.expand_suite import require_valid
from thinwire.config.tuned import Choice
from thinwire.config.tuning_suite import PREFIX
from thinwire.plugins import show
from thinwire.tuning import choose, figure
from thinwire.tuning.rows_of_trials import runs_of_trials
from thinwire.tuning.write_tuned import write_tuned


def main(arguments: Namespace) -> int:
    """Choose from the trials of a tuning, and write the choice, its record and its figure."""
    name = arguments.suite
    require_valid(f"{PREFIX}{name}")
    runs = runs_of_trials(name, arguments.results)
    made = write_tuned(name, runs)
    folder = arguments.results / "figures" / f"{PREFIX}{name}"
    figure.write(choose.trials(runs), folder, baselines(suites.read(suites.path_of(name))))
    for label, choice in made.methods.items():
        print(_line(label, choice))
        for key, end in choice.at_edge.items():
            print(f"{label}: the best {key} is near the {end} end of its range: widen it", file=sys.stderr)
        if choice.accuracy_percent is None:
            print(f"{label}: no trial has ended, so it keeps the suite's own recipe", file=sys.stderr)
    print(f"{show(tuned.path_of(name))}\n{show(tuned.trials_path(name))}\n{folder / figure.NAME}.pdf")
    return 0


def _line(label: str, choice: Choice) -> str:
    values = {**choice.recipe.values, **choice.options}
    shown = ", ".join(f"{key} {value:g}" for key, value in values.items())
    accuracy = "none" if choice.accuracy_percent is None else f"{choice.accuracy_percent:.2f} %"
    return f"{label}: trial {choice.trial}, accuracy {accuracy}: {shown}"
