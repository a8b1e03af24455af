"""What the cases train: a tiny suite, and a plug-in that fails on demand."""

from tests.workflow.conftest import Project

# Sixteen steps, and a state that is saved after every second one.
EPOCHS, BATCH, STEPS_BETWEEN_LOOKS = 2, 144, 2
# Seconds after which a rank is taken for lost: if the engine has to notice that, and if it must not.
HASTY_SECONDS, PATIENT_SECONDS = 8, 60
# Every method in one process or in several, and two of them as a block.
EVERY, BLOCK = "every", "block"

_METHODS = """
  ssgd:
  local_sgd: {options: {period: 3}}
  top_k: {options: {density: 0.1}}
  ps_sgd:
  hylo: {options: {conv_threshold: 16, linear_threshold: 100}}
  daso: {options: {warmup_epochs: 0, cooldown_epochs: 0, max_skips: 4}}
  multi_step_delay: {options: {warmup_steps: 2, interval: 3, delay: 1}}
"""
METHODS = ("ssgd", "local_sgd", "top_k", "ps_sgd", "hylo", "daso", "multi_step_delay")
# Methods that the plug-in stands for: what it does, and in which hook.
HOWS = ("raises", "exits", "exit code 0", "exit code 2", "exit code 130", "exit code 143", "killed")
HOOKS = ("setup", "sync_gradients", "evaluated", "finish")
FAULTY = '''"""Goes wrong in its second rank, as its options say."""

import atexit
import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

import thinwire


class Method(thinwire.Method):
    @dataclass
    class Config:
        how: str = "well"
        where: str = "nowhere"

    def go_wrong(self, where):
        if where != self.config.where or self.run.world.rank != 1:
            return
        how = self.config.how
        if how == "raises":
            raise RuntimeError("out of luck")
        if how == "exits":
            raise SystemExit("enough")
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how.startswith("exit code"):
            os._exit(int(how.rpartition(" ")[2]))
        if how == "crashes once" and not Path("crashed").exists():
            Path("crashed").touch()
            os.kill(os.getpid(), signal.SIGSEGV)
        if how == "hangs":
            threading.Event().wait()
        if how == "aborts at exit":
            atexit.register(os.abort)
        if how == "other kind":
            self.kind = "weights"

    def setup(self):
        self.kind = "values"
        self.go_wrong("setup")

    def sync_gradients(self):
        if self.run.step == 5:
            self.go_wrong("sync_gradients")
        self.run.world.mean(self.run.gradients, kind=self.kind).wait()

    def finish(self):
        self.go_wrong("finish")

    def evaluated(self, unmetered):
        self.go_wrong("evaluated")
        return super().evaluated(unmetered)
'''


def faulty(how: str, hook: str) -> str:
    """The label of the plug-in that fails in this way in this hook."""
    return f"{how.replace(' ', '_')}_in_{hook}"


def on_processes(suite: str) -> bool:
    """Whether the runs of a suite are on processes, as those of a block are."""
    return suite.endswith(BLOCK)


def write(project: Project) -> None:
    """Put suites and plug-in into a copy of the project."""
    project.write("methods/faulty.py", FAULTY)
    _write(project, EVERY, _METHODS)
    _write(project, BLOCK, "{ssgd: , top_k: {options: {density: 0.1}}}", "processes")
    for how in HOWS:
        for hook in HOOKS:
            label, options = faulty(how, hook), f"{{how: {how}, where: {hook}}}"
            methods = f"{{ssgd: , {label}: {{use: faulty, options: {options}}}}}"
            _write(project, label, methods)
            _write(project, f"{label}_block", methods, "processes")


def _write(project: Project, name: str, methods: str, transport: str = "inprocess") -> None:
    more = f"checkpoint_every_seconds: 0\nhang_seconds: {PATIENT_SECONDS}\ntransport: {transport}\n"
    project.suite(name, methods, EPOCHS, "[3, {workers: 4, nodes: 2}]", more)
    path = project.folder / "config" / f"{name}.yaml"
    path.write_text(path.read_text().replace("batch: 64", f"batch: {BATCH}"))
