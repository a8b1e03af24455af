"""Which workers behave alike: one of each role stands for all of them."""

from unittest.mock import Mock

import pytest

from tests import project, small
from thinwire import plugins
from thinwire.base.errors import UserError
from thinwire.base.options import resolve
from thinwire.base.placement import Cluster
from thinwire.simulation.mirrored import MirroredTrainer, Role, alike, roles
from thinwire.trace.recorder import RecordedCall
from thinwire.train.tracing import record_spans
from thinwire.transport.mirror import Mirror

CLUSTERS = [
    Cluster(6, 3),
    *(pytest.param(cluster, marks=pytest.mark.slow) for cluster in (Cluster(4), Cluster(8, 2))),
]
# Without decisions that follow from the loss, which is another one among all workers.
FIXED = {"multi_step_delay": {"min_interval": 3, "max_interval": 3}}


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("name", project.METHODS)
def test_every_worker_calls_what_the_worker_of_its_role_calls(name, cluster):
    """The schedule that was derived is the recorded one, to the byte unless sizes are ragged."""
    method = plugins.get("method", name).load()
    short = method.short | FIXED.get(name, {})
    config = resolve(method, short)
    model, recipe = small.model_for(method, **short), small.recipe_for(method)
    task = small.task(cluster.workers, cluster.nodes, build_model=model, **recipe)
    if (reason := small.skip(task, method, **short)) is not None:
        pytest.skip(reason)
    together = small.trainer(task, method, **short)
    recorders = record_spans(together)
    together.train()
    found = {}

    def calls_of(worker):
        trainer = MirroredTrainer(task, method, config, Mirror(cluster.workers, worker))
        trainer.setup(together.workers[0].method.prepared)
        (recorder,) = record_spans(trainer)
        trainer.train()
        found[worker] = recorder.calls
        return recorder.calls

    divided = roles(cluster, calls_of)
    assert sorted(worker for role in divided for worker in role.workers) == list(range(cluster.workers))
    for role in divided:
        for worker in role.workers:
            recorded, derived = recorders[worker].calls, found[role.worker]
            assert alike(worker, recorded, role.worker, derived), worker
            assert [*map(bytes_of, recorded)] == [*map(bytes_of, derived)], worker


def bytes_of(call):
    """What a worker hands over and gets; of ragged payloads, only that there are some."""
    return call.ragged or (call.sent_bytes, call.received_bytes)


def made(cluster, verb, partner, step=0, size=8, channel="world", worker=0, ragged=False):
    members = cluster.groups(worker)[channel]
    return RecordedCall(step, channel, members, verb, "", partner, ragged, {"values": size}, 0)


def test_servers_on_many_workers_and_sources_at_other_steps_make_no_roles():
    cluster = Cluster(4096, 512)
    asked = Mock(return_value=[made(cluster, "push_pull", server, size=server) for server in range(200)])
    assert roles(cluster, asked) == [Role(0, cluster.world())]
    assert asked.call_count < 10
    cluster = Cluster(8)
    asked = Mock(return_value=[made(cluster, "broadcast", step % 3, step) for step in range(6)])
    assert roles(cluster, asked) == [Role(0, cluster.world())]
    for source in (0, 1, 2):
        asked.assert_any_call(source)


def test_a_worker_that_does_more_is_found_by_the_calls_of_the_others():
    """Each node's source of a broadcast makes a call between the nodes."""
    cluster = Cluster(32, 4)

    def calls(worker):
        own = [made(cluster, "mean", 0, channel="across", worker=worker)] if worker % 8 == 5 else []
        return [*own, made(cluster, "broadcast", 5, channel="node", worker=worker)]

    sources = (5, 13, 21, 29)
    others = tuple(worker for worker in range(32) if worker not in sources)
    assert roles(cluster, calls) == [Role(0, others), Role(5, sources)]


def test_workers_of_a_ring_are_alike_and_the_centre_of_a_star_is_a_role():
    for size in (5, 4096):
        ring = Cluster(size)

        def calls(worker, ring=ring, size=size):
            right, left = (worker + 1) % size, (worker - 1) % size
            return [made(ring, "send", right), made(ring, "receive", left)]

        assert roles(ring, calls) == [Role(0, ring.world())]
    star, others = Cluster(40), tuple(range(1, 40))
    centre = [made(star, "receive", other) for other in others]
    of_star = roles(star, lambda worker: [made(star, "send", 0)] if worker else centre)
    assert of_star == [Role(0, (0,)), Role(1, others)]


@pytest.mark.parametrize(
    ("size", "ragged", "number"),
    [
        (lambda worker: 800 + worker % 2, False, 1),  # a rounding does not count
        (lambda worker: 8 if worker else 16, False, 2),
        (lambda worker: 8 if worker else 16, True, 1),
    ],
)
def test_workers_that_send_more_are_no_role_of_the_others(size, ragged, number):
    cluster = Cluster(8)

    def calls(worker):
        return [made(cluster, "gather", 0, size=size(worker), ragged=ragged)]

    assert len(roles(cluster, calls)) == number


def test_too_many_roles_are_refused():
    cluster = Cluster(128)
    sources = [made(cluster, "broadcast", step, step) for step in range(128)]
    with pytest.raises(UserError, match="more than 64 of the 128 workers differ"):
        roles(cluster, lambda worker: [*sources, *[made(cluster, "mean", 0, 128)] * worker])
