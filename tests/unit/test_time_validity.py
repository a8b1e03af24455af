"""When the times of a run say nothing about its method, because workers shared what they should not."""

import pytest

from thinwire.train.time_validity import no_time_because
from thinwire.worker_placement import Cluster


def about(host, cores, device="cpu", **more):
    return {"host": host, "cores": cores, "device": device, **more}


@pytest.mark.parametrize(
    ("ranks", "nodes", "diagnosis"),
    [
        ([about("a", [0, 1]), about("a", [0, 1])], 1, None),
        ([about("a", [0]), about("a", [1]), about("b", [0]), about("b", [1])], 2, None),
        ([about("a", [0, 1])] * 4, 1, "4 workers shared 2 cores of a"),
        ([about("a", [0, 1])] * 2, 2, "its 2 nodes were 1 machine"),
        ([about("a", [0]), about("b", [0]), about("b", [1])], 3, "its 3 nodes were 2 machines"),
        ([about("a", [0], "gpu-1"), about("a", [0], "gpu-2")], 1, None),
        ([about("a", [0], "gpu-1"), about("a", [0], "gpu-1")], 1, "2 workers shared 1 GPU of a"),
        ([about("a", [0], "gpu-1", other_processes=0)], 1, None),
        ([about("a", [0], "gpu-1", other_processes=1)], 1, "1 other process used a GPU of a"),
        (
            [about("a", [0], "gpu-1", other_processes=0), about("b", [0], "gpu-1", other_processes=2)],
            2,
            "2 other processes used a GPU of b",
        ),
        ([about("a", [0], "gpu-1", messages_through_host=False)], 1, None),
        (
            [
                about("a", [0], "gpu-1", messages_through_host=False),
                about("a", [0], "gpu-2", messages_through_host=True),
            ],
            1,
            "its messages went through the memory of the hosts, and its other calls over NCCL",
        ),
    ],
)
def test_times_that_say_nothing_about_the_method_are_not_valid(ranks, nodes, diagnosis):
    assert no_time_because(ranks, Cluster(len(ranks), nodes)) == diagnosis
