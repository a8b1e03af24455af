"""Which workers behave alike: one of each role stands for all of them."""

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


class Asked:
    """Mirrors workers by a function from rank to calls, and keeps which ones were asked for."""

    def __init__(self, calls):
        self.workers, self._calls = [], calls

    def __call__(self, worker):
        self.workers.append(worker)
        return self._calls(worker)


def test_servers_on_many_workers_and_sources_at_other_steps_make_no_roles():
    cluster = Cluster(4096, 512)
    asked = Asked(lambda worker: [made(cluster, "push_pull", server, size=server) for server in range(200)])
    assert roles(cluster, asked) == [Role(0, cluster.world())]
    assert len(asked.workers) < 10
    cluster = Cluster(8)
    asked = Asked(lambda worker: [made(cluster, "broadcast", step % 3, step) for step in range(6)])
    assert roles(cluster, asked) == [Role(0, cluster.world())]
    assert {0, 1, 2} <= set(asked.workers)


def test_a_worker_that_does_more_is_found_by_the_calls_of_the_others():
    """Each node's source of a broadcast makes a call between the nodes."""
    cluster = Cluster(32, 4)

    def calls(worker):
        own = [made(cluster, "mean", 0, channel="across", worker=worker)] if worker % 8 == 5 else []
        return [*own, made(cluster, "broadcast", 5, channel="node", worker=worker)]

    sources = (5, 13, 21, 29)
    others = tuple(worker for worker in range(32) if worker not in sources)
    assert roles(cluster, calls) == [Role(0, others), Role(5, sources)]


@pytest.mark.parametrize("size", [5, 4096])
def test_workers_of_a_ring_are_alike(size):
    cluster = Cluster(size)

    def calls(worker):
        right, left = (worker + 1) % size, (worker - 1) % size
        return [made(cluster, "send", right), made(cluster, "receive", left)]

    assert roles(cluster, calls) == [Role(0, cluster.world())]


def test_the_centre_of_a_star_is_a_role():
    cluster = Cluster(40)

    def calls(worker):
        if worker:
            return [made(cluster, "send", 0)]
        return [made(cluster, "receive", other) for other in range(1, 40)]

    assert roles(cluster, calls) == [Role(0, (0,)), Role(1, tuple(range(1, 40)))]


def test_workers_that_send_more_are_no_role_of_the_others_and_a_rounding_does_not_count():
    cluster = Cluster(8)
    assert len(roles(cluster, lambda worker: [made(cluster, "gather", 0, size=800 + worker % 2)])) == 1
    assert len(roles(cluster, lambda worker: [made(cluster, "gather", 0, size=8 if worker else 16)])) == 2
    ragged = roles(
        cluster, lambda worker: [made(cluster, "gather", 0, size=8 if worker else 16, ragged=True)]
    )
    assert len(ragged) == 1


def test_too_many_roles_are_refused():
    cluster = Cluster(128)
    with pytest.raises(UserError, match="more than 64 of the 128 workers differ"):
        roles(
            cluster,
            lambda worker: [
                *(made(cluster, "broadcast", step, step) for step in range(128)),
                *(made(cluster, "mean", 0, 128) for _ in range(worker)),
            ],
        )
