"""thinwire: methods that train one network on many workers while sending little between them.

This package exports everything that a plug-in needs. A plug-in imports `thinwire` and derives from
`thinwire.Method`, `thinwire.Model` or `thinwire.Dataset`. `thinwire.run_cell` trains one cell of a suite.
Each name is imported on first use, so that the pipeline can read suites without importing torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thinwire.buckets import Bucket as Bucket
    from thinwire.call import Pending as Pending
    from thinwire.channel import Channel as Channel
    from thinwire.cli.run import run_cell as run_cell
    from thinwire.data.dataset import Augment as Augment
    from thinwire.data.dataset import Dataset as Dataset
    from thinwire.errors import UserError as UserError
    from thinwire.in_the_limit import InTheLimit as InTheLimit
    from thinwire.messages_in_flight import Flight as Flight
    from thinwire.method import Job as Job
    from thinwire.method import Method as Method
    from thinwire.method import Needs as Needs
    from thinwire.method_provenance import Part as Part
    from thinwire.model import Model as Model
    from thinwire.parameter_server import Server as Server
    from thinwire.parameters import Param as Param
    from thinwire.run import Run as Run

__version__ = "0.1.0"

_HOME = {
    "Augment": "data.dataset",
    "Bucket": "buckets",
    "Channel": "channel",
    "Dataset": "data.dataset",
    "Flight": "messages_in_flight",
    "InTheLimit": "in_the_limit",
    "Job": "method",
    "Method": "method",
    "Model": "model",
    "Needs": "method",
    "Param": "parameters",
    "Part": "method_provenance",
    "Pending": "call",
    "Run": "run",
    "Server": "parameter_server",
    "UserError": "errors",
    "run_cell": "cli.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"thinwire has no {name!r}")
    return getattr(import_module(f"thinwire.{_HOME[name]}"), name)
