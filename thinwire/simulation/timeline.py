"""What a simulation gives: when each worker ends each step, and what it waited for."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Timeline:
    """Of all workers; arrays are [steps, workers], in seconds."""

    end_seconds: Floats
    """When a worker ends a step, from the start on."""
    compute_seconds: Floats
    """How long it computes in a step."""
    others_seconds: Floats
    """How long it waits until the last member has made the call that it waits for."""
    server_seconds: Floats
    """How long it waits while a server computes or serves other calls."""
    communication_seconds: Floats
    """How long it waits for bytes. This communication is *exposed*: no computation hides it."""
    operations: int
    """How many operations the workers have carried out."""
    sent_bytes: int
    """By all workers together."""
    between_nodes_bytes: int
    """Of these, between nodes."""

    @property
    def seconds(self) -> float:
        """Until the last worker has ended the last step."""
        return float(self.end_seconds[-1].max())

    @property
    def step_seconds(self) -> Floats:
        """[steps]: time between the ends of consecutive steps; a step ends with its last worker."""
        return np.diff(self.end_seconds.max(axis=1), prepend=0.0)
