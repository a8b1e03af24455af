"""Segments and pipes of the workers of one host: they have no names, and lack of memory is one sentence."""

import errno
import os
import signal

import pytest
import torch

from tests import processes
from thinwire.api.channel import Channel
from thinwire.base.errors import ResourceError
from thinwire.base.placement import Cluster
from thinwire.traffic.ledger import Ledger
from thinwire.transport import shared_memory
from thinwire.transport.rendezvous import ConnectionLost

WORKERS = 3


def world():
    """The channel of all workers."""
    cluster = Cluster(WORKERS)
    transport = processes.transport(cluster)
    rank = transport.ranks[0]
    return Channel("world", cluster.world(), (0,) * WORKERS, rank, transport, Ledger())


def names_while_it_is_open():
    before = sorted(os.listdir("/dev/shm"))
    channel = world()
    channel.mean([torch.ones(10_000)]).wait()
    return sorted(os.listdir("/dev/shm")) == before


def test_nothing_has_a_name():
    assert processes.run(names_while_it_is_open, WORKERS) == [True] * WORKERS


def descriptors_of_one_more():
    """How many files are open after a transport was opened and closed, each time."""
    counts = []
    for _ in range(3):
        world().mean([torch.ones(3)]).wait()
        processes.close()
        counts.append(len(os.listdir("/proc/self/fd")))
    return counts


def test_closing_gives_everything_back():
    for counts in processes.run(descriptors_of_one_more, WORKERS):
        assert counts[1] == counts[2]


def killed_in_the_middle():
    channel = world()
    channel.mean([torch.ones(100_000)]).wait()
    if channel.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(ConnectionLost) as lost:
        channel.mean([torch.ones(100_000)]).wait()
    raise lost.value


def test_a_killed_worker_is_noticed_at_once():
    """By the end of its pipe, and not by an alarm or a time limit."""
    with pytest.raises(processes.Failed) as failed:
        processes.run(killed_in_the_middle, WORKERS)
    assert "member 1 of this node has ended" in str(failed.value)


def no_memory():
    def none(*_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    os.memfd_create = none
    with pytest.raises(ResourceError) as refused:
        world()
    return str(refused.value)


def test_too_few_open_files_are_one_sentence():
    for sentence in processes.run(no_memory, WORKERS):
        assert sentence == "no memory can be shared by the workers of this node (Too many open files)"


def test_a_mate_that_has_ended_while_channels_open_is_lost():
    with pytest.raises(ConnectionLost, match="it has ended, or it runs in a PID namespace of its own"):
        shared_memory._opened(2**22 + 1, 3, os.O_RDWR)


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.EMFILE, "run short of something \\(Too many open files"), (errno.EACCES, "in one container")],
)
def test_the_advice_fits_what_the_system_refuses(monkeypatch, number, words):
    def refuse(path, how):
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ResourceError, match=words):
        shared_memory._opened(1, 3, os.O_RDWR)


def finds_no_room():
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    channel = world()
    channel.gather({"values": torch.ones(1000)}).wait()
    os.posix_fallocate = full
    # What has been reserved is there to stay.
    channel.gather({"values": torch.ones(1000)}).wait()
    with pytest.raises(ResourceError) as refused:
        channel.gather({"values": torch.ones(5_000_000)}).wait()
    return str(refused.value)


def adds():
    channel = world()
    # 1e8 + 3 is 1e8 in float32, so in another order nothing would be left.
    one = torch.tensor([[1e8, -1e8, 3.0][channel.rank]])
    channel.mean([one]).wait()
    return one.tolist()


def test_means_are_taken_in_the_order_of_the_workers():
    assert processes.run(adds, WORKERS) == [[1.0]] * WORKERS


def test_no_room_is_one_sentence():
    for sentence in processes.run(finds_no_room, WORKERS):
        assert sentence == (
            "20 MB of shared memory cannot be had (No space left on device): free memory, or raise the limit "
            "of this job"
        )
