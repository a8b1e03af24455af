"""Makes `python -m thinwire`, `python -m snakemake` and `python benchmarks/NAME.py` clients of the server.

Python imports this module before anything else where its folder is in PYTHONPATH. In jobs of Slurm, which
inherit that, commands begin as they do for a user: only there are they processes of the job.
"""

import os
import sys

_ADDRESS = os.environ.get("THINWIRE_TESTS_SERVER", "")
_COMMAND = sys.orig_argv[1:]
_MODULES = (["-m", "thinwire"], ["-m", "snakemake"])
_SCRIPTS = "benchmarks/"


def _main() -> None:
    import json
    import signal
    import socket

    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.connect(f"\0{_ADDRESS}")
    forwarded = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    ignored = [number for number in forwarded if signal.getsignal(number) is signal.SIG_IGN]
    # Held back until the process is there that they are for.
    signal.pthread_sigmask(signal.SIG_BLOCK, forwarded)
    asked = json.dumps(
        {
            "command": _COMMAND,
            "environment": dict(os.environ),
            "folder": os.getcwd(),
            "ignored": ignored,
        }
    )
    # A packet has a limit, and an environment has none.
    file = os.memfd_create("asked")
    os.write(file, asked.encode())
    socket.send_fds(server, [b"?"], [0, 1, 2, file])
    os.close(file)
    assert server.recv(1) == b"!"  # there is a process
    for number in forwarded:
        if number not in ignored:
            signal.signal(number, lambda number, frame: server.send(bytes([number])))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, forwarded)
    code = int(server.recv(16))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if (
    _ADDRESS
    and "SLURM_JOB_ID" not in os.environ
    and (_COMMAND[:2] in _MODULES or "".join(_COMMAND[:1]).startswith(_SCRIPTS))
):
    _main()
