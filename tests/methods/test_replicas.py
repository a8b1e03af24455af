"""Methods whose workers all take the same step stay equal bit for bit."""

import pytest
import torch

from tests import small
from thinwire import plugins


@pytest.mark.parametrize(("name", "place"), [("dgc", (4, 1)), ("hsgd", (6, 3)), ("top_k", (4, 1))])
def test_replicas_stay_equal_bit_for_bit(name, place):
    task = small.task(*place, dtype=torch.float32)
    run = small.trainer(task, name, **plugins.get("method", name).load().short)
    run.train()
    assert len({small.digest(worker.run.weights) for worker in run.workers}) == 1
