"""Workers of one host share memory that has no name; means of tensors that lie there are taken in place."""

import errno
import os
import signal
from functools import partial

import pytest
import torch

import thinwire
from tests import processes, small
from thinwire.api.channel import Channel, UnmeteredChannel
from thinwire.base.errors import ResourceError
from thinwire.base.placement import Cluster
from thinwire.traffic.wire_bytes import Ledger
from thinwire.transport import shared_tensors
from thinwire.transport.rendezvous import ConnectionLost
from thinwire.transport.shared_memory import SharedMemory
from thinwire.transport.shared_tensors import Run, SharedTensors

WORKERS = 3


def world(workers):
    """The transport and the channel of all workers."""
    cluster = Cluster(workers)
    transport = processes.transport(cluster)
    rank = transport.ranks[0]
    return transport, Channel("world", cluster.world(), (0,) * workers, rank, transport, Ledger())


def world_of_three():
    return world(WORKERS)[1]


def names_and_files_left():
    """What has a name while a transport is open; and the files that are open after each of three."""
    counts = []
    for _ in range(3):
        before = os.listdir("/dev/shm")
        world_of_three().mean([torch.ones(10_000)]).wait()
        named = set(os.listdir("/dev/shm")) - set(before)
        processes.close()
        counts.append(len(os.listdir("/proc/self/fd")))
    return named, counts


def test_nothing_has_a_name_and_closing_gives_everything_back():
    for named, counts in processes.run(names_and_files_left, WORKERS):
        assert not named
        assert counts[1] == counts[2]


def killed_in_the_middle():
    channel = world_of_three()
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
        world_of_three()
    return str(refused.value)


def test_too_few_open_files_are_one_sentence():
    for sentence in processes.run(no_memory, WORKERS):
        assert sentence == "no memory can be shared by the workers of this node (Too many open files)"
    # A mate that has ended while channels open is lost.
    with pytest.raises(ConnectionLost, match="it has ended, or it runs in a PID namespace of its own"):
        shared_tensors.opened(2**22 + 1, 3, os.O_RDWR)


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.EMFILE, "run short of something \\(Too many open files"), (errno.EACCES, "in one container")],
)
def test_the_advice_fits_what_the_system_refuses(monkeypatch, number, words):
    def refuse(path, how):
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ResourceError, match=words):
        shared_tensors.opened(1, 3, os.O_RDWR)


def finds_no_room():
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    channel = world_of_three()
    channel.gather({"values": torch.ones(1000)}).wait()
    os.posix_fallocate = full
    # What has been reserved is there to stay.
    channel.gather({"values": torch.ones(1000)}).wait()
    with pytest.raises(ResourceError) as refused:
        channel.gather({"values": torch.ones(5_000_000)}).wait()
    return str(refused.value)


def test_no_room_is_one_sentence():
    for sentence in processes.run(finds_no_room, WORKERS):
        assert sentence == (
            "20 MB of shared memory cannot be had (No space left on device): free memory, or raise the limit "
            "of this job"
        )


SHAPES = [(3,), (257, 5), (1,), (300_001,)]


def test_tensors_that_follow_each_other_are_one_run():
    shared = SharedTensors()
    first, second, third = shared.like([torch.empty(3), torch.empty(2, 2), torch.empty(5)])
    assert shared.used
    assert shared.runs_of([first, second, third]) == [Run(0, 12)]
    assert shared.runs_of([third, first]) == [Run(28, 5), Run(0, 3)]
    assert shared.runs_of([second[1]]) == [Run(20, 2)]
    assert shared.runs_of([first, torch.empty(3)]) == []
    assert shared.runs_of([second.t()]) == [], "its numbers lie in another order"
    # Types of other sizes are aligned.
    shared = SharedTensors()
    half, double = shared.like([torch.empty(3, dtype=torch.float16), torch.empty(2, dtype=torch.float64)])
    assert shared.runs_of([half]) == [Run(0, 3)]
    assert shared.runs_of([double]) == [Run(8, 2)]


def numbers(rank, dtype):
    """Tensors whose sum depends on the order in which it is taken."""
    drawn = torch.Generator().manual_seed(rank)
    return [(torch.randn(shape, generator=drawn) * 10.0**rank).to(dtype) for shape in SHAPES]


def watched(ways):
    """Note how each mean is taken, and of how many runs."""

    def note(name, way):
        def taken(memory, what, *rest):
            ways.append((name, len(what)))
            way(memory, what, *rest)

        return taken

    SharedMemory._reduce_in_place = note("in place", SharedMemory._reduce_in_place)
    SharedMemory._reduce_in_turn = note("in turn", SharedMemory._reduce_in_turn)


def means(workers, dtype):
    """The means of the same numbers, in shared memory and elsewhere; and which way each went."""
    transport, channel = world(workers)
    ways = []
    watched(ways)
    own = numbers(channel.rank, dtype)
    here = transport.shared_like(own)
    for place, tensor in zip(here, own):
        place.copy_(tensor)
    kept = [tensor.clone() for tensor in here]
    unmetered = UnmeteredChannel(
        "unmetered", channel.members, (0,) * workers, channel.rank, transport, Ledger()
    )
    fresh = unmetered.mean(here).wait()
    assert all(map(torch.equal, here, kept)), "what is given stays as it is"
    # Several calls on their way at the same time, in both ways, and one whose tensors lie apart.
    calls = [channel.mean(here[:2]), channel.mean(own), channel.mean([here[3], here[2]])]
    for call in calls:
        call.wait()
    assert all(map(torch.equal, here, own))
    assert all(map(torch.equal, fresh, own))
    return [way for way, _ in ways], [tensor.double() for tensor in own]


TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_means_in_place_have_the_bits_of_all_others(workers):
    outcomes = processes.run_all([partial(means, dtype=dtype) for dtype in TYPES], workers, workers)
    for dtype, outcome in zip(TYPES, outcomes):
        assert not isinstance(outcome, processes.Failed), outcome
        every = [numbers(rank, dtype) for rank in range(workers)]
        for ways, found in outcome:
            assert ways == ["in turn", "in place", "in turn", "in place"]
            for number, mean in enumerate(found):
                first, *others = [own[number] / (workers if dtype.itemsize == 2 else 1) for own in every]
                total = sum(others, start=first)
                assert torch.equal(mean, (total if dtype.itemsize == 2 else total / workers).double())


def lie_differently():
    """Rank 0 gives one of its shared tensors, rank 1 another one, and rank 2 one that is not shared."""
    transport, channel = world(3)
    shared = transport.shared_like([torch.empty(1000), torch.empty(1000)])
    given = [*shared, torch.empty(1000)][channel.rank]
    given.fill_(channel.rank)
    channel.mean([given]).wait()
    return given.unique().tolist()


def test_tensors_may_lie_differently_on_the_members():
    assert processes.run(lie_differently, 3) == [[1.0]] * 3


class Late(thinwire.Method):
    """Adds the gradients of the step before, which it keeps, and those whose mean ends in the next step."""

    kept, sent = None, None

    def sync_gradients(self):
        gradients = self.run.gradients
        mean = self.run.world.mean([gradient.clone() for gradient in gradients])
        if self.kept is not None:
            torch._foreach_add_(gradients, self.kept)
        self.kept = [gradient.view(-1).view(gradient.shape) for gradient in self.run.gradients]
        torch._foreach_add_(gradients, mean.wait())


def weights_of(method, epochs=2):
    """The weights after a run of two workers on one node, of each worker in this process."""
    run = small.trainer(small.task(2, epochs=epochs), method)
    run.train()
    return [[weight.detach().clone() for weight in worker.run.weights] for worker in run.workers]


def test_a_gradient_that_a_method_keeps_is_never_overwritten():
    found = processes.run(weights_of, 2, Late)
    for rank, expected in enumerate(weights_of(Late)):
        assert all(map(torch.equal, found[rank][0], expected))


def places_of_gradients():
    ways = []
    watched(ways)
    small.trainer(small.task(2, epochs=1), "ssgd", bucket_mb=0.001).train()
    return [runs for way, runs in ways if way == "in place"]


def test_each_bucket_of_gradients_is_one_run_in_shared_memory():
    for runs in processes.run(places_of_gradients, 2):
        assert len(runs) > 10
        assert set(runs) == {1}
