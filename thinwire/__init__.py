"""thinwire: methods that train one network on many workers while sending little between them.

What a plug-in needs is here: `import thinwire` and derive from `thinwire.Method`, `thinwire.Model` or
`thinwire.Dataset`. The names load on first use, because the pipeline reads suites without needing torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thinwire.channel import Channel as Channel
    from thinwire.channel import Flight as Flight
    from thinwire.channel import Pending as Pending
    from thinwire.data.augment import Augment as Augment
    from thinwire.dataset import Dataset as Dataset
    from thinwire.errors import UserError as UserError
    from thinwire.method import Bucket as Bucket
    from thinwire.method import Method as Method
    from thinwire.method import Needs as Needs
    from thinwire.method import Param as Param
    from thinwire.method import Run as Run
    from thinwire.method import Server as Server
    from thinwire.model import Model as Model

__version__ = "0.1.0"

_HOME = {
    "Augment": "data.augment",
    "Bucket": "method",
    "Channel": "channel",
    "Dataset": "dataset",
    "Flight": "channel",
    "Method": "method",
    "Model": "model",
    "Needs": "method",
    "Param": "method",
    "Pending": "channel",
    "Run": "method",
    "Server": "method",
    "UserError": "errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"thinwire has no {name!r}")
    return getattr(import_module(f"thinwire.{_HOME[name]}"), name)
