"""How ranks meet, and what they say if they cannot."""

import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.processes import reserved_port
from thinwire.base.errors import UserError
from thinwire.base.placement import Address, Placement, SharedFile
from thinwire.transport import rendezvous
from thinwire.transport.rendezvous import Refused, join, store_of

# Ranks that come meet within this time; those that wait in vain have less, which messages round to 1 s.
PATIENCE, SHORT = 60.0, 0.6


def at(port, rank=0, host="127.0.0.1", launch="srun 7.0.1"):
    return Placement(rank, 2, rank, f"n{rank}", "srun", Address(host, port, launch))


def store(placement, seconds=PATIENCE, serve=False):
    return store_of(placement, placement.meeting, seconds, serve)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_does_not_come_is_named(tmp_path, rank):
    here = Placement(rank, 2, rank, f"n{rank}", "fork", SharedFile(str(tmp_path / "meeting"), "lo"))
    sentence = f"^rank {rank} on n{rank} met 1 of 2 ranks within 1 s, without rank {1 - rank}: start all of"
    with pytest.raises(UserError, match=sentence):
        join(here, SHORT)


def test_rank_0_that_cannot_listen_is_one_sentence():
    here = re.escape(socket.gethostname())
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = rf"^rank 0 cannot listen at port {port} of {here} \(Address already in use\): set MAST"
        for host in ("127.0.0.1", "first"):
            with pytest.raises(UserError, match=sentence):
                join(at(port, host=host), SHORT)


def test_a_host_that_does_not_exist_is_told_at_once(monkeypatch):
    def resolve(*arguments, **options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    began = time.monotonic()
    with pytest.raises(UserError, match=r"^rank 1 on n1 finds no host nobody\.invalid: set MASTER_ADDR to"):
        join(at(1, rank=1, host="nobody.invalid"), PATIENCE)
    assert time.monotonic() - began < PATIENCE / 2


@pytest.mark.parametrize("there", ["nobody", "somebody who says nothing", "no answer of the resolver"])
def test_rank_0_that_is_not_reached_is_one_sentence_and_in_time(there, monkeypatch):
    def resolve(*arguments, **options):
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    host = "127.0.0.1"
    if there == "no answer of the resolver":
        host = "nobody.invalid"
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with reserved_port() as port:
        silent = socket.create_server(("127.0.0.1", port)) if there == "somebody who says nothing" else None
        before = {*threading.enumerate()}
        began = time.monotonic()
        sentence = f"^rank 1 on n1 could not reach rank 0 at {re.escape(host)}:{port} within 1 s: see that"
        with pytest.raises(UserError, match=sentence):
            join(at(port, rank=1, host=host), SHORT)
        assert time.monotonic() - began < PATIENCE
        if silent is not None:
            silent.close()
    # torch goes on for a moment in a thread of its own, and prints then: not into the output of another test.
    for thread in {*threading.enumerate()} - before:
        thread.join(PATIENCE)


def test_a_refusal_of_rank_0_reaches_all():
    with reserved_port() as port, ThreadPoolExecutor(2) as pool:
        joins = [pool.submit(join, at(port), PATIENCE, "enough"), pool.submit(join, at(port, 1), PATIENCE)]
        for each in joins:
            with pytest.raises(Refused, match=r"^enough$"):
                each.result(PATIENCE)


def test_ranks_of_another_launch_at_the_same_port_do_not_meet():
    with reserved_port() as port:
        serving = store(at(port), serve=True)
        serving.set("here/0", "")
        serving.set("refusal", "")
        with pytest.raises(UserError, match=r"^rank 1 on n1 met 1 of 2 ranks within 1 s, without rank 0:"):
            join(at(port, 1, launch="srun 7.0.2"), SHORT)
        assert not serving.check(["here/1"])


@pytest.mark.parametrize(("host", "found"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("first", "")])
def test_rank_0_listens_beyond_its_host_only_if_others_are_there(host, found):
    try:
        with rendezvous.listen(host, 0) as listener:
            assert listener.getsockname()[0] in ((found,) if found else ("::", "0.0.0.0"))
    except OSError:
        assert host == "::1", "no IPv6 here"


def test_the_interface_towards_rank_0_is_found():
    assert rendezvous.address_towards("127.0.0.1", 1) == "127.0.0.1"
    assert rendezvous.address_towards("nobody.invalid", 1) is None
    assert rendezvous.interface_of("127.0.0.1") == "lo"
    assert rendezvous.interface_of("192.0.2.1") is None
    if socket.has_ipv6 and Path("/proc/net/if_inet6").exists():
        assert rendezvous.interface_of("::1") in ("lo", None)
