"""Imports and makes once, before they fork, what all test processes need."""

import gc
from contextlib import suppress

import torch
import torch._dynamo  # optimizers import it at their first step; each fork would

from tests import small
from tests.contract import test_on_processes  # noqa: F401
from thinwire import plugins

torch.set_num_threads(1)
small.digits()
for plugin in plugins.find("method").values():
    # One that cannot be loaded is somebody's who will hear of it elsewhere.
    with suppress(plugins.PluginError):
        plugin.load()
# Forks do not look for garbage in what they share: that would copy it.
gc.collect()
gc.freeze()
