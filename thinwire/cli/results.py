"""Commands that read records: `thinwire collect`, `report`, `page`, `paper`, `claims`, `tuned` and others.

Each imports what it needs itself: what draws, tests statistics or talks to W&B takes seconds to import, and
`collect` needs none of it.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.progress import track

from thinwire.base.errors import UserError
from thinwire.base.folders import suggested_command
from thinwire.base.learning import LearningTask
from thinwire.config import suite as suites
from thinwire.config import tuned, tuning_space
from thinwire.config.entries import baselines, task_of
from thinwire.config.expand import require_valid
from thinwire.config.grid_subset import Subset
from thinwire.config.trials import PREFIX
from thinwire.config.tuned import Choice
from thinwire.plugins import show


def collect_main(arguments: Namespace) -> int:
    from thinwire.report.rows.collect import collect

    subset = Subset.of_words(arguments.only)
    for sentence in collect(arguments.suites, arguments.results, subset):
        print(sentence, file=sys.stderr)
    return 0


def report_main(arguments: Namespace) -> int:
    from thinwire.report.report import report

    for sentence in report(arguments.suite, arguments.results):
        print(sentence, file=sys.stderr)
    return 0


def page_main(arguments: Namespace) -> int:
    from thinwire.publish.page.page import write

    print(f"open: {write(arguments.results)}")
    return 0


def paper_main(arguments: Namespace) -> int:
    from thinwire.publish.paper.paper import paper

    print(paper(arguments.results))
    return 0


def claims_main(arguments: Namespace) -> int:
    """Write and print the verdicts on the claims of all suites, from the collected files."""
    from thinwire.report import claims_table

    if not arguments.results.is_dir():
        raise UserError(f"there is no {arguments.results}: run the pipeline first, or name its results")
    made, sentences = claims_table.table(arguments.results)
    claims_table.write(made, arguments.results)
    print(claims_table.short(made).to_markdown(index=False, disable_numparse=True))
    for sentence in sentences:
        print(sentence, file=sys.stderr)
    return 0


def tuned_main(arguments: Namespace) -> int:
    """Choose from the trials of a tuning, and write the choice, its record and its figure."""
    from thinwire.report import tuning

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


def cite_main(arguments: Namespace) -> int:
    from thinwire.publish.paper.declarations import bibtex

    print(bibtex(arguments.suite))
    return 0


def track_main(arguments: Namespace) -> int:
    """Make offline runs of W&B from the records of runs. The command succeeds even if W&B cannot be used."""
    from thinwire.publish.wandb.suite import replay

    subset = Subset.of_words(arguments.only)
    for suite in arguments.suites:
        made = replay(suite, arguments.results, subset)
        if made.problem is not None:
            print(f"thinwire: W&B: {made.problem}: the runs of {suite} are not replayed", file=sys.stderr)
            continue
        left = made.cells - made.runs
        print(f"{made.runs} runs of {suite} replayed{f', {left} are not published yet' if left else ''}")
        if not made.summed_up:
            report = suggested_command("report", suite, results=arguments.results)
            print(f"  without its summary: the tables are not made yet; {report} makes them")
        print(f"  browse them: wandb leet {made.folder}")
        print(f"  send them:   wandb sync {made.folder}")
    return 0


def wandb_report_main(arguments: Namespace) -> int:
    """Create a report in the user's project of W&B, which is asked for and never written by itself."""
    from thinwire.publish.wandb.suite import create_report

    print(f"created: {create_report(arguments.suite)}")
    return 0


def rebuild_main(arguments: Namespace) -> int:
    from thinwire.audit.archive import rebuild

    for sentence in rebuild(arguments.folder, len(os.sched_getaffinity(0))):
        print(sentence, file=sys.stderr)
    print(f"rebuilt: {arguments.folder}")
    return 0


def archive_main(arguments: Namespace) -> int:
    from thinwire.audit.archive import archive

    archive(arguments.suites, arguments.results, arguments.into)
    print(f"archived in {arguments.into}; `thinwire rebuild {arguments.into}` makes tables and figures there")
    return 0


def compare_main(arguments: Namespace) -> int:
    """Print a rerun beside the committed results; 1 if a cell lies outside its interval."""
    from pandas.api.types import is_numeric_dtype

    from thinwire.audit.compare import compare

    table = compare(arguments.folder, arguments.results)
    # A label such as `007` is no number.
    labels = [place for place, kind in enumerate(table.dtypes) if not is_numeric_dtype(kind)]
    print(table.to_markdown(index=False, disable_numparse=labels, floatfmt=".10g"))
    counts = ", ".join(f"{number} {verdict}" for verdict, number in table.verdict.value_counts().items())
    print(f"\n{len(table)} comparisons: {counts}")
    return int((table.verdict == "outside").any())


def verify_main(arguments: Namespace) -> int:
    from thinwire.audit import archive
    from thinwire.audit.verify import verify

    through = _shown if sys.stderr.isatty() else iter
    if archive.archived(arguments.folder):
        # What is committed is checked, and not what somebody has unpacked earlier.
        with archive.unpacked(arguments.folder) as folder:
            found = verify(folder, through, archived=True)
    else:
        folder = arguments.folder
        found = verify(folder, through)
    for sentence in found.problems:
        print(sentence.replace(str(folder), str(arguments.folder)), file=sys.stderr)
    for plug_in, number_of_records in sorted(found.edited.items()):
        print(f"{number_of_records} records were made before the file of the {plug_in} was edited")
    number = f"{found.records} record{'' if found.records == 1 else 's'}, {found.sound} sound"
    others = len(found.problems)
    print(f"{number}; {others} problem{'' if others == 1 else 's'} in all" if others else number)
    return int(bool(found.problems))


def _shown(folders: list[Path]) -> Iterable[Path]:
    """Go through the folders of records, and show on the terminal how far it is."""
    return track(folders, "records", console=Console(stderr=True), transient=True)
