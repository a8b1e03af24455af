"""Which faults are tried, when, on which rank, and what the outcome must be.

A case has five parts: a fault, the phase of the run in which it comes, the way in which the run is started,
the rank that it hits, and the method that is trained. All possible combinations of fault, phase and way of
starting are tried; methods and ranks alternate.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from tests.faults import suites

# How a run is started.
ALONE = "alone"  # three workers in one process
NODE = "node"  # three ranks on this machine, connected through shared memory
NODES = "nodes"  # four ranks on this machine, described as two nodes, connected over gloo
BLOCK = "block"  # `thinwire train`, four ranks on this machine
CLUSTER = "cluster"  # `thinwire train` in an allocation of two nodes, each a network namespace
ON_ONE_MACHINE = (ALONE, NODE, NODES, BLOCK)
RANKS = {ALONE: 1, NODE: 3, NODES: 4, BLOCK: 4, CLUSTER: 4}
SIZE = {ALONE: "w3", NODE: "w3", NODES: "w4n2", BLOCK: "w4n2", CLUSTER: "w4n2"}


def folder_of_runs(results: Path, suite: str, start: str) -> Path:
    """Where a run is: apart if it is on processes and its suite is not."""
    return results / "by_hand" if start in (NODE, NODES) and not suites.on_processes(suite) else results


# The phases: the function of the engine at whose call the fault comes, and at which call of that process.
PHASES = {
    "rendezvous": ("thinwire.transport.rendezvous:join", 1),
    "opening": ("thinwire.transport.processes:Processes.__init__", 1),
    "channels": ("thinwire.transport.endpoint:Endpoint.__init__", 2),
    "segments": ("thinwire.transport.shared_tensors:Segment.__init__", 1),
    "data": ("thinwire.train.run_setup:task_of", 1),
    "resume": ("thinwire.records.checkpoint:sound", 1),
    "step": ("thinwire.train.trainer:Trainer._train_step", 6),
    "exchange": ("thinwire.train.worker:Worker.exchange", 12),
    "evaluation": ("thinwire.train.evaluation:evaluate", 1),
    "checkpoint": ("thinwire.base.digests:write_json", 3),  # between the tensors and the tree
    "last evaluation": ("thinwire.train.evaluation:evaluate", 2),
    "publishing": ("thinwire.train.run_cell:Attempt._publish", 1),
    "renaming": ("thinwire.records.record:put_in_place", 1),
}
# Phases that do not exist in one process, and phases that only the leading rank reaches.
_MEETING = ("rendezvous", "opening", "channels", "segments")
_LEADERS = ("renaming",)
# From here on a state has been saved, so a run that is hit later must not begin anew.
_SAVED = ("step", "exchange", "evaluation", "checkpoint", "last evaluation", "publishing", "renaming")
# In these phases a requested stop may come too late.
_LATE = ("last evaluation", "publishing", "renaming")

SIGNALS = ("INT", "TERM", "USR1", "HUP")
NUMBER = {"HUP": 1, "INT": 2, "KILL": 9, "USR1": 10, "SEGV": 11, "TERM": 15}


@dataclass(frozen=True)
class Case:
    """One fault in one run."""

    fault: str
    phase: str
    start: str
    method: str
    rank: int
    ends: str  # the required outcome, see below
    needs_mounts: bool = False
    hasty: bool = False  # whether the engine has to notice that a rank is missing

    @property
    def name(self) -> str:
        return "-".join([self.fault, self.phase, self.start, self.method]).replace(" ", "_")

    @property
    def suite(self) -> str:
        measured = self.start in (BLOCK, CLUSTER)
        if self.method not in suites.METHODS:
            return f"{self.method}_block" if measured else self.method
        return suites.BLOCK if measured else suites.EVERY

    @property
    def cell(self) -> str:
        return f"digits/cnn/{self.method}/{SIZE[self.start]}/seed0"

    @property
    def saved(self) -> bool:
        """Whether the run has saved a state before the fault."""
        return self.phase in _SAVED and self.fault not in FORGETFUL

    @property
    def late(self) -> bool:
        return self.phase in _LATE


# The required outcomes of a fault.
AGAIN = "again"  # the rank is named and the run goes on by itself, to the same bits
ENDED = "ended"  # the process is gone and nothing is published; the next call goes on to the same bits
STOPPED = "stopped"  # exit code 128 + N and nothing published; the next call goes on to the same bits
REFUSED = "refused"  # exit code 2, a sentence, nothing published; the next call goes on to the same bits
HELD = "held"  # either REFUSED, or the run does not need what is gone and gives the same bits
UNMOVED = "unmoved"  # the run goes on as if nothing had happened
FAILED = "failed"  # the fault comes every time: a result, with the rank and what happened to it

# Faults that cost the states that were saved.
FORGETFUL = ("no partial folder",)


@dataclass(frozen=True)
class _Fault:
    ends: str
    starts: tuple[str, ...] = ON_ONE_MACHINE
    phases: tuple[str, ...] = tuple(PHASES)
    needs_mounts: bool = False
    hasty: bool = False


_PROCESSES = (NODE, NODES, BLOCK)
_AT_FIRST = ("rendezvous", "channels", "segments", "data")
_FEW = ("opening", "step", "checkpoint", "publishing")
_FAULTS = {
    # A rank is lost.
    "KILL": _Fault(AGAIN, (*_PROCESSES, CLUSTER)),
    "SEGV": _Fault(AGAIN, (NODE, NODES), ("rendezvous", *_FEW, "evaluation")),
    "STOP": _Fault(AGAIN, _PROCESSES, hasty=True),
    "lost link": _Fault(AGAIN, (CLUSTER,), needs_mounts=True, hasty=True),
    "KILL every time": _Fault(FAILED, _PROCESSES, ("rendezvous", "channels", "evaluation", *_FEW)),
    # Everything is lost.
    "KILL process": _Fault(AGAIN, (ALONE,)),
    "SEGV process": _Fault(AGAIN, (ALONE,), _FEW),
    "KILL parent": _Fault(ENDED),
    "KILL all": _Fault(ENDED, (ALONE, NODE, BLOCK), ("segments", *_FEW)),
    # A stop is asked for.
    **{name: _Fault(STOPPED) for name in ("TERM", "HUP")},
    "INT": _Fault(STOPPED, (ALONE, NODE, NODES), ("rendezvous", "channels", "data", *_FEW, "evaluation")),
    "USR1": _Fault(STOPPED, (ALONE, NODES, BLOCK), ("rendezvous", "segments", *_FEW, "evaluation")),
    "lost terminal": _Fault(STOPPED, (ALONE, NODE), ("rendezvous", *_FEW, "evaluation")),
    # Something around the run fails.
    "full disk": _Fault(HELD, needs_mounts=True),
    "file size": _Fault(HELD, (ALONE, NODE), (*_FEW, "evaluation", "renaming")),
    "full shm": _Fault(HELD, _PROCESSES, (*_AT_FIRST, *_FEW), needs_mounts=True),
    "few files": _Fault(HELD, (ALONE, NODE, NODES), (*_AT_FIRST, *_FEW)),
    "little memory": _Fault(HELD, (ALONE, NODE, NODES), (*_AT_FIRST, "step", "checkpoint")),
    "no partial folder": _Fault(HELD, phases=("data", "resume", *_FEW[1:], "evaluation", "renaming")),
    # Something fails on which no result depends.
    "closed stdout": _Fault(UNMOVED),
    "closed output": _Fault(UNMOVED, (ALONE, NODE), ("data", "step", "evaluation", "renaming")),
    "full stdout": _Fault(UNMOVED, (ALONE, NODE), ("data", "step", "evaluation", "renaming")),
    "frozen": _Fault(UNMOVED, _PROCESSES, hasty=True),
    # Slurm loses the task that has forked a rank.
    "KILL task": _Fault(AGAIN, (CLUSTER,), ("rendezvous", *_FEW), needs_mounts=True, hasty=True),
}
# These faults come between two calls: the first call is asked to stop, and the second finds the fault.
BETWEEN = ("damaged checkpoint", "read-only results")


def _is_there(phase: str, start: str, ends: str) -> bool:
    if start == ALONE:
        return phase not in _MEETING
    # A block is published by the process that starts its ranks, which is no rank.
    return start not in (BLOCK, CLUSTER) or phase not in _LEADERS or ends not in (AGAIN, FAILED)


def cases() -> list[Case]:
    """All of them, in an order that is the same everywhere."""
    made = [*_in_phases(), *_before_a_resumption(), *_of_methods()]
    names = [case.name for case in made]
    assert len(set(names)) == len(names)
    return made


def _in_phases() -> Iterator[Case]:
    turn = count()
    for fault, about in _FAULTS.items():
        for start in about.starts:
            for phase in PHASES:
                if phase in about.phases and _is_there(phase, start, about.ends):
                    number = next(turn)
                    # Ranks that never connect may have a wrong address, which a person has to correct.
                    # The same holds for a fault that comes every time before the method has begun.
                    never_met = (fault, phase) == ("lost link", "rendezvous")
                    never_met = never_met or (fault == "KILL every time" and phase in _MEETING)
                    made = Case(
                        fault,
                        phase,
                        start,
                        _method(start, number),
                        0 if phase in _LEADERS else number % RANKS[start],
                        HELD if never_met else about.ends,
                        about.needs_mounts or start == CLUSTER,
                        about.hasty,
                    )
                    yield replace(made, hasty=made.hasty or start == CLUSTER)


def _method(start: str, number: int) -> str:
    """The method of a case. A block has two methods, and DASO needs two nodes."""
    methods = ["ssgd", "top_k"] if start in (BLOCK, CLUSTER) else list(suites.METHODS)
    if start in (ALONE, NODE):
        methods.remove("daso")
    return methods[number % len(methods)]


def _before_a_resumption() -> Iterator[Case]:
    for number, fault in enumerate(BETWEEN):
        for start in (ALONE, NODES):
            needs_mounts = fault == "read-only results"
            yield Case(fault, "step", start, _method(start, number), 0, HELD, needs_mounts)


def _of_methods() -> Iterator[Case]:
    """Faults of the method itself: the run fails, whichever way the method fails."""
    for hook in suites.HOOKS:
        for how in suites.HOWS:
            for start in (NODE, BLOCK):
                if start == NODE or hook == "sync_gradients":
                    yield Case("plug-in", hook, start, suites.faulty(how, hook), 1, FAILED)
        for how in ("raises", "exits"):
            yield Case("plug-in", hook, ALONE, suites.faulty(how, hook), 1, FAILED)


def diagonal() -> list[Case]:
    """A few cases in which every fault, phase, start and method occurs at least once."""
    left = cases()
    missing = {trait for case in left for trait in _traits(case)}
    chosen: list[Case] = []
    while missing:
        best = max(left, key=lambda case: (len(missing & _traits(case)), not case.hasty, case.saved))
        missing -= _traits(best)
        chosen.append(best)
    return chosen


def _traits(case: Case) -> set[tuple[str, str]]:
    method = case.method if case.method in suites.METHODS else "of its own"
    return {("fault", case.fault), ("phase", case.phase), ("start", case.start), ("method", method)}


def part(number: int, of: int) -> list[Case]:
    """Every `of`-th case, from the `number`-th on, counted from 1."""
    return cases()[number - 1 :: of]
