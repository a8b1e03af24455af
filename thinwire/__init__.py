"""thinwire: methods that train one network on many workers while sending little between them.

This package exports everything that a plug-in needs. A plug-in imports `thinwire` and derives from
`thinwire.Method`, `thinwire.Model` or `thinwire.Dataset`. `thinwire.run` trains one cell of a suite, and
`thinwire.load` reads collected results. Each name is imported on first use, so that the pipeline can read
suites without importing torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from thinwire.api.channel import Channel as Channel
    from thinwire.api.declarations import InTheLimit as InTheLimit
    from thinwire.api.declarations import Needs as Needs
    from thinwire.api.declarations import Part as Part
    from thinwire.api.flight import Flight as Flight
    from thinwire.api.method import Job as Job
    from thinwire.api.method import Method as Method
    from thinwire.api.model import Model as Model
    from thinwire.api.parameters import Bucket as Bucket
    from thinwire.api.parameters import Param as Param
    from thinwire.api.run import Run as Run
    from thinwire.base.errors import UserError as UserError
    from thinwire.base.placement import moved_to as moved_to
    from thinwire.cli.run import run as run
    from thinwire.data.dataset import Augment as Augment
    from thinwire.data.dataset import Dataset as Dataset
    from thinwire.report.rows.collect import load as load
    from thinwire.traffic.meter import meter as meter
    from thinwire.transport.call import Pending as Pending
    from thinwire.transport.call import Server as Server

__version__ = "0.1.0"
# The version of RULES.md that this code follows.
# Results are comparable only under the same version. Raise it with every change that alters results. Then all
# runs are repeated.
RULES_VERSION = 3

_HOME = {
    "Augment": "data.dataset",
    "Bucket": "api.parameters",
    "Channel": "api.channel",
    "Dataset": "data.dataset",
    "Flight": "api.flight",
    "InTheLimit": "api.declarations",
    "Job": "api.method",
    "Method": "api.method",
    "Model": "api.model",
    "Needs": "api.declarations",
    "Param": "api.parameters",
    "Part": "api.declarations",
    "Pending": "transport.call",
    "Run": "api.run",
    "Server": "transport.call",
    "UserError": "base.errors",
    "load": "report.rows.collect",
    "meter": "traffic.meter",
    "moved_to": "base.placement",
    "run": "cli.run",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"thinwire has no {name!r}")
    return getattr(import_module(f"thinwire.{_HOME[name]}"), name)
