"""How Snakemake was called, what was chosen with `--config`, and what the rules have in common.

Snakemake documents `basedir` and `cores` of its `workflow`. All else that is used of its inside is in this
file, and was checked with the version `CHECKED_WITH`. Check at an upgrade:

- `configured`: `workflow.config_settings.config` has what `--config` gives (tests/workflow/test_tuning.py).
- `called`: while the Snakefile is read, `workflow` has `is_main_process`, `remote_exec`,
  `output_settings.dryrun`, `deployment_settings.deployment_method` and
  `resource_settings.default_resources.args` (tests/workflow/test_cluster_profile.py).
- `limit`: `workflow.global_resources` is a mapping in which a limit can be set, and two jobs run side by side
  on two GPUs (tests/workflow/test_gpus.py).
- `planned`, `sends_to_slurm`: when jobs begin, there are `workflow.dag.needrun_jobs()` and
  `workflow.executor_plugin.name` (tests/workflow/test_pipeline.py and test_cluster_profile.py).
- `hide_lines_about_jobs`: Snakemake prints through a handler of the name `DefaultStreamHandler`, and a person
  sees no line about a job (tests/workflow/test_pipeline.py).
- Snakemake deletes the outputs of a job before it starts the job, and after the job has failed. That is why
  `thinwire.records.record` keeps a copy of each (tests/workflow/test_pipeline.py).
- The plug-in for Slurm drops the variables that begin with SLURM_, and starts a step of its own for jobs
  without the resource `mpi`. It gives all jobs of an array the resources of the first, and their commands to
  the option `--slurm-jobstep-array-execs` (tests/slurm).
"""

import logging
import re
import shlex
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from pydantic import ValidationError
from snakemake.settings.types import DeploymentMethod

from thinwire.base import folders
from thinwire.base.errors import UserError
from thinwire.base.options import problems
from thinwire.config.configuration import Configuration
from thinwire.config.grid_subset import WHOLE, Subset
from thinwire.config.trials import PREFIX, Stage
from thinwire.config.yaml_file import Module
from thinwire.plugins import PACKAGE, ROOT

if TYPE_CHECKING:
    from snakemake.workflow import Workflow

CHECKED_WITH = "9.27.1"

# The regular expressions of the rules' wildcards.
SEED = r"seed\d+"
ANY = r"[^/]+"

# Lines of Snakemake that name jobs by number, and others that repeat a job's whole command.
_ABOUT_JOBS = ("job_started", "job_finished", "progress")
_ABOUT_COMMANDS = ("Select jobs to execute...", "RuleException:\nCalledProcessError")
# After Ctrl-C no job has failed: a person has stopped them.
_ABOUT_FAILURES = ("WorkflowError:", "Error in rule", "Exiting because a job execution failed")


@dataclass(frozen=True)
class Call:
    """How Snakemake was called."""

    plans: bool = True  # it plans jobs, and is none itself
    dry: bool = False
    in_job: bool = False  # on a node of a cluster, for one job
    starts_task: bool = False  # there, it starts another snakemake for its task of a job array
    engine: str = "python -m thinwire"  # the command with which jobs call the engine
    defaults: Mapping[str, str] = field(default_factory=dict)  # the default resources of the profile
    machine_cores: int | None = None  # that snakemake may use here

    @property
    def job_minutes(self) -> str | None:
        """The time that jobs of a cluster ask for, as it is set; None if they run on this machine."""
        return self.defaults.get("runtime")

    @property
    def cores(self) -> int | None:
        """The cores of the machine that runs the jobs; None if that is a cluster."""
        return None if self.job_minutes else self.machine_cores

    def thinwire(self, command: str) -> str:
        """A command of the engine, for the `shell` of a rule, in which `{}` stand for parts of the job."""
        return f"{self.engine.replace('{', '{{').replace('}', '}}')} {command}"

    def logged(self, command: str) -> str:
        """As `thinwire`; the command prints to the log of the job, which is shown if it fails."""
        return f"{self.thinwire(command)} > {{log:q}} 2>&1 || {{{{ cat {{log:q}} >&2; exit 1; }}}}"


def called(workflow: "Workflow") -> Call:
    """How Snakemake was called, from its `workflow`."""
    elsewhere = {DeploymentMethod.CONDA, DeploymentMethod.APPTAINER}
    deployed = not elsewhere.isdisjoint(workflow.deployment_settings.deployment_method)
    defaults = workflow.resource_settings.default_resources
    given = [] if defaults is None else [each.split("=", 1) for each in defaults.args]
    return Call(
        plans=workflow.is_main_process,
        dry=workflow.output_settings.dryrun,
        in_job=workflow.remote_exec,
        starts_task=any(word.startswith("--slurm-jobstep-array-execs") for word in sys.argv),
        engine=_engine("python" if deployed else shlex.quote(sys.executable)),
        defaults={name: value.strip("'\" ") for name, value in given},
        machine_cores=workflow.cores,
    )


def configured(workflow: "Workflow", config: Mapping[str, object]) -> tuple[dict[str, object], set[str]]:
    """The configuration, in which `suites` or `tune` of the command line replaces both keys of a file.

    Returns the values by key, and the keys of which the file has the value.
    """
    given = workflow.config_settings.config
    replaced = {"suites", "tune"} if {"suites", "tune"} & given.keys() else set()
    kept = {key: value for key, value in config.items() if key in given or key not in replaced}
    return kept, kept.keys() - given.keys()


@dataclass(frozen=True)
class Chosen:
    """What a person chose with `snakemake --config`."""

    suites: list[str]
    data: Path | None = None  # has a folder for each data set whose files cannot be downloaded
    subset: Subset = WHOLE

    @property
    def tuned(self) -> list[str]:
        """The suites that are tuned, if tunings were chosen."""
        return list(dict.fromkeys(Stage.named(n).of for n in self.suites if n.startswith(PREFIX)))

    def place_of(self, dataset: Module) -> str:
        """The option of `thinwire data` for the folder of this data set; empty where there is no such folder.

        The folder has the label of the data set, or the name of its module.
        """
        names = (dataset.label, dataset.use) if self.data else ()
        for folder in (Path(self.data or "") / name for name in names):
            if folder.is_dir():
                return f"--from {shlex.quote(str(folder))}"
        return ""


def chosen(config: Mapping[str, object], in_file: Container[str] = ()) -> Chosen:
    """Read what was given; without `suites` the demo is chosen.

    Args:
        config: values by key, as `Configuration` has them.
        in_file: the keys whose values are from `config/config.yaml`, and not from the command line.

    Raises:
        UserError: a key is unknown, a value is not valid, or the folder does not exist.
    """

    def where(key: str) -> str:
        return f"{folders.SNAKEMAKE}:" if key in in_file else "--config"

    if empty := [key for key, value in config.items() if value is None and key not in in_file]:
        raise UserError(f"--config {empty[0]}=: it is empty; give it a value, or leave it out")
    try:
        given = Configuration.model_validate(config).given
    except ValidationError as error:
        first = error.errors()[0]["loc"]
        problem = problems(error, [*Configuration.model_fields])[0]
        raise UserError(f"{where(str(first[0]) if first else 'tune')} {problem}") from None
    suites = _names(given.get("suites", "demo"))
    if wrong := [name for name in suites if name.startswith(PREFIX)]:
        better = wrong[0].removeprefix(PREFIX)
        raise UserError(f"{where('suites')} suites={wrong[0]}: give tune={better} instead")
    if "tune" in given:
        suites = [f"{PREFIX}{name}" for name in _names(given["tune"])]
    data = Path(str(given["data"])) if "data" in given else None
    if data is not None and not data.is_dir():
        raise UserError(f"{where('data')} data={data}: there is no such folder")
    return Chosen(suites, data, Subset.of(given))


def _names(listed: object) -> list[str]:
    """Each name once, in the order of their first."""
    return list(dict.fromkeys(name.strip() for name in str(listed).split(",")))


def _engine(python: str) -> str:
    """The command of the engine with this Python: that of this environment, of conda's or of a container's.

    Jobs in another folder than the project's are told where it is, because conda clears PYTHONPATH.
    """
    if Path.cwd() == ROOT or PACKAGE.parent != ROOT:  # an installed package is found everywhere
        return f"{python} -m thinwire"
    return f"env PYTHONPATH={shlex.quote(str(ROOT))}${{PYTHONPATH:+:$PYTHONPATH}} {python} -m thinwire"


def limit(workflow: "Workflow", name: str, number: int) -> None:
    """Let jobs that run at once use at most so many of a resource, unless the user has set another limit."""
    workflow.global_resources.setdefault(name, number)


def planned(workflow: "Workflow") -> set[str]:
    """The files that the jobs which will run make."""
    return {str(path) for job in workflow.dag.needrun_jobs() for path in job.output}


def sends_to_slurm(workflow: "Workflow") -> bool:
    """Do jobs run on a cluster with Slurm?"""
    return bool(workflow.executor_plugin.name == "slurm")


def hide_lines_about_jobs(interrupted: Callable[[], bool]) -> None:
    """Keep lines such as "Finished jobid: 3" out of the terminal; they stay in Snakemake's log file.

    If a person has pressed Ctrl-C, as `interrupted` says, lines about failures are hidden, too.
    """

    def is_for_a_person(line: logging.LogRecord) -> bool:
        event = str(getattr(line, "event", None) or "").rpartition(".")[2].lower()
        hidden = (*_ABOUT_COMMANDS, *(_ABOUT_FAILURES if interrupted() else ()))
        return event not in _ABOUT_JOBS and not line.getMessage().startswith(hidden)

    for handler in logging.getLogger("snakemake.logging").handlers:
        if handler.name == "DefaultStreamHandler":
            handler.addFilter(is_for_a_person)


def preparation(dataset: str) -> str:
    """As a regular expression: the path of a preparation from this data set."""
    return f"{re.escape(dataset)}/{ANY}/{ANY}/{SEED}"


def one_of(names: Iterable[str]) -> str:
    """As a regular expression: one of these names, whatever characters they have; of none, nothing."""
    return "|".join(map(re.escape, names)) or "(?!)"


@contextmanager
def exit_on_error() -> Iterator[None]:
    """End the process with the sentence of a `UserError`, and after Ctrl-C without a traceback."""
    sys.excepthook = _print_error
    try:
        yield
    except UserError as error:
        sys.exit(f"thinwire: {error}")


def _print_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        print("thinwire: interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)
