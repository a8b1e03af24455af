"""A real Slurm on this one machine: a controller, its accounting, and several nodes with counted GPUs.

All of it lies in one temporary folder, to which `SLURM_CONF` leads. Daemons run in the foreground as children
of this process. If it dies, the kernel kills them, so that none is left over.
"""

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from tests.waiting import until
from thinwire.base.files import try_lock

CONF = "SLURM_CONF"
PREFIX = "thinwire-slurm-"
LOCK = Path("/run/lock/thinwire-slurm")
NEEDED = ("munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "setpriv")
ENDS = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")

SLURM = """
ClusterName=thinwire
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
# How long credentials live is also how long a requeued job waits before it may start again.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
# No control groups, because they belong to the machine. The tasks of a step are a process group instead.
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=2
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
DefMemPerCPU=500
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={accounting}
AccountingStoragePass={folder}/munge.socket
AccountingStorageEnforce=associations
{nodes}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=60 DefaultTime=10 PriorityTier=1 PreemptMode=OFF
PartitionName=low Nodes=ALL MaxTime=60 DefaultTime=10 PriorityTier=1 PreemptMode=REQUEUE GraceTime=10
PartitionName=high Nodes=ALL MaxTime=60 DefaultTime=10 PriorityTier=2 PreemptMode=OFF
"""
NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port}"
    " CPUs={cpus} RealMemory={memory} Gres=gpu:{gpus}"
)
GRES = "Name=gpu File={folder}/gpu[0-{last}]\n"
ACCOUNTING = """
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdPort={accounting}
SlurmUser=root
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
"""


def why_not() -> str | None:
    """Why no Slurm can be brought up here, in one sentence; None where one can."""
    if os.geteuid() != 0:
        return "only root can bring up a Slurm"
    if missing := [program for program in NEEDED if shutil.which(program) is None]:
        return f"there is no {missing[0]} here; envs/slurm.sh installs what the tests of Slurm need"
    return None


def free_ports(count: int) -> list[int]:
    """Different free ports."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Slurm:
    """The cluster. Partitions: `gpu` is the default, and `high` preempts what runs in `low`."""

    account = "bench"

    def __init__(self, nodes: int = 2, cpus: int = 8, gpus: int = 4, memory: int = 16000) -> None:
        self.nodes = [f"node{i}" for i in range(nodes)]
        self.cpus, self.gpus, self.memory = cpus, gpus, memory
        self.daemons: list[subprocess.Popen] = []

    def __enter__(self) -> "Slurm":
        self.lock = LOCK.open("w")
        free = "another test run on this machine gives Slurm back"
        until(free, lambda: try_lock(self.lock, "see /run/lock"), seconds=1200)
        remove_leftovers()
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            self._configure()
            self._start()
        except BaseException as error:
            error.add_note(self._logs())
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):  # what came up only in part has no jobs
            self.clear()
        while self.daemons:
            daemon = self.daemons.pop()
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        os.environ.pop(CONF, None)
        remove_leftovers()
        self.lock.close()

    def __call__(self, *command: str) -> str:
        """The output of a command of Slurm."""
        answer = self._ask(*command)
        if answer.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {answer.stderr.strip()}")
        return answer.stdout.strip()

    def submit(self, script: str, *options: str) -> str:
        """Submit a shell script with sbatch; the job's number."""
        head = ["sbatch", "--parsable", "--account", self.account, f"--output={self.folder}/%j.txt"]
        return self(*head, *options, "--wrap", script)

    def output(self, job: str) -> str:
        """The output of a job so far."""
        path = self.folder / f"{job}.txt"
        return path.read_text() if path.exists() else ""

    def state(self, job: str) -> str:
        return self("squeue", "--noheader", "--states=all", "--format=%T", "--jobs", job)

    def wait(self, job: str, state: str) -> None:
        """Wait until the job is in this state; it is an error if it ends in another one."""
        until(f"job {job} is {state}", lambda: self.state(job) in {state, *ENDS})
        if self.state(job) != state:
            raise RuntimeError(f"job {job} is {self.state(job)}, not {state}, and said:\n{self.output(job)}")

    def clear(self) -> None:
        """Cancel all jobs, and wait until every node is idle again."""
        self("scancel", "--user", getpass.getuser())
        until("all nodes are idle", self.idle)

    def idle(self) -> bool:
        """Whether every node can take jobs and has none."""
        states = self("sinfo", "--noheader", "--Node", "--partition=gpu", "--format=%T").split()
        return states == ["idle"] * len(self.nodes)

    def _ask(self, *command: str) -> subprocess.CompletedProcess:
        environment = {k: v for k, v in os.environ.items() if k == CONF or not k.startswith("SLURM_")}
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60, env=environment
        )

    def _configure(self) -> None:
        """Write the configuration, and let Slurm's commands find it."""
        folder, host = self.folder, socket.gethostname().split(".")[0]
        self.controller, self.accounting, *ports = free_ports(2 + len(self.nodes))
        nodes = "\n".join(
            NODE.format(name=name, host=host, port=port, cpus=self.cpus, memory=self.memory, gpus=self.gpus)
            for name, port in zip(self.nodes, ports, strict=True)
        )
        ports_of = {"controller": self.controller, "accounting": self.accounting}
        values = {"folder": folder, "host": host, **ports_of}
        etc = folder / "etc"
        for name in ("etc", "state", "database", *(f"spool/{node}" for node in self.nodes)):
            (folder / name).mkdir(parents=True)
        folder.chmod(0o755)  # munge's socket is everybody's
        (etc / "slurm.conf").write_text(SLURM.format(nodes=nodes, **values))
        (etc / "gres.conf").write_text(GRES.format(folder=folder, last=self.gpus - 1))
        (etc / "slurmdbd.conf").write_text(ACCOUNTING.format(**values))
        (etc / "slurmdbd.conf").chmod(0o600)
        for index in range(self.gpus):
            (folder / f"gpu{index}").symlink_to(os.devnull)  # a GPU is some device, and only counted
        key = folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        os.environ[CONF] = f"{etc}/slurm.conf"

    def _start(self) -> None:
        folder = self.folder
        kinds = ("key-file", "socket", "pid-file", "log-file", "seed-file")
        self._daemon(
            "munged",
            "--foreground",
            *(f"--{kind}={folder}/munge.{kind.removesuffix('-file')}" for kind in kinds),
        )
        database = ["--no-defaults", "--user=root", f"--datadir={folder}/database"]
        self("mariadb-install-db", *database, "--auth-root-authentication-method=socket", "--skip-test-db")
        mysql = f"{folder}/mysql.socket"
        self._daemon(
            "mariadbd", *database, f"--socket={mysql}", f"--pid-file={folder}/mysql.pid", "--skip-networking"
        )
        until(
            "the database answers",
            lambda: self._answers("mariadb-admin", "--no-defaults", f"--socket={mysql}", "ping"),
        )
        # The client library looks for the database where Debian has it, unless told otherwise.
        self._daemon("slurmdbd", "-D", MYSQL_UNIX_PORT=mysql)
        until("the accounting answers", lambda: self._answers("sacctmgr", "--noheader", "list", "cluster"))
        self("sacctmgr", "--immediate", "add", "cluster", "thinwire")
        self("sacctmgr", "--immediate", "add", "account", self.account)
        self("sacctmgr", "--immediate", "add", "user", getpass.getuser(), f"account={self.account}")
        self._daemon("slurmctld", "-D")
        until("the controller answers", lambda: self._answers("scontrol", "ping"))
        for name in self.nodes:
            self._daemon("slurmd", "-D", "-N", name)
        until("the nodes are idle", self.idle)

    def _answers(self, *command: str) -> bool:
        if dead := [daemon.args for daemon in self.daemons if daemon.poll() is not None]:
            raise RuntimeError(f"this daemon did not stay up: {' '.join(dead[0])}")
        answer = self._ask(*command)
        return answer.returncode == 0 and "DOWN" not in answer.stdout

    def _daemon(self, *command: str, **environment: str) -> None:
        """Start a daemon that does not outlive this process."""
        with (self.folder / "daemons.txt").open("a") as log:
            daemon = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.daemons.append(daemon)

    def _logs(self) -> str:
        """The last lines of every log."""
        logs = [*sorted(self.folder.glob("*.log")), self.folder / "daemons.txt"]
        return "\n".join(
            f"{path.name}:\n  " + "\n  ".join(path.read_text(errors="replace").splitlines()[-5:])
            for path in logs
            if path.exists()
        )


def _of_jobs(folder: Path) -> list[int]:
    """The processes of a cluster's jobs: the sessions of the daemons, one a step, that write to its logs."""
    processes = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    sessions, found = set(), []
    for process in processes:
        with contextlib.suppress(OSError):  # it has ended
            if Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"slurmstepd:"):
                opened = [os.readlink(file) for file in Path(f"/proc/{process}/fd").iterdir()]
                if any(name.startswith(f"{folder}/") for name in opened):
                    sessions.add(os.getsid(process))
    for process in processes:
        with contextlib.suppress(OSError):
            if os.getsid(process) in sessions:
                found.append(process)
    return found


def remove_leftovers() -> None:
    """End the jobs of clusters that are gone, and remove their folders; the lock says that there is none."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        for process in _of_jobs(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
