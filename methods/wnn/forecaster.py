"""The forecaster: a network that forecasts a weight five intervals ahead, from its last five values.

    W_k = (w_k - w_1) / 2 (d + 1e-5), with d = max w - min w + 1e-8; and their differences
    forecast = (W_5 + f(W, differences)) 2 (d + 1e-5) + w_1, with f between -1 and 1

One network of 9,425 parameters serves all scalar weights of a kind. It is that of the authors' code, whose
LeakyReLU has Keras' slope 0.3. The initial weights are the code's too. The first and the last layer of each
stream are drawn with the scale that the code gives, the other layers with Keras' default (Glorot & Bengio,
2010). All biases are zero.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

HISTORY = 5  # number of values that it sees, and of intervals that it forecasts ahead
KINDS = ("conv", "linear", "bias")  # kinds of weights; each has a forecaster


class Stream(nn.Module):
    """Linear layers around a learned activation."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.enter = nn.Linear(inputs, 64)
        self.narrow = nn.Linear(64, 8)
        self.shift = nn.Linear(8, 64)
        self.scale = nn.Linear(8, 64)
        self.rate = nn.Linear(8, 64)
        self.leave = nn.Linear(64, 32)

    def forward(self, values: Tensor) -> Tensor:
        entered = self.enter(values)
        narrow = self.narrow(entered).relu()
        activated = self.shift(narrow) + self.scale(narrow) * (self.rate(narrow) * entered).exp()
        return functional.leaky_relu(self.leave(activated), 0.3)


class Forecaster(nn.Module):
    """The function f: from normalised histories [n, 5] to normalised changes [n] from the last value."""

    def __init__(self) -> None:
        super().__init__()
        self.values = Stream(HISTORY)
        self.differences = Stream(HISTORY - 1)
        self.head = nn.Linear(64, 1)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                # Uniform, with variance scaling for the outer layers, and Glorot's for the others.
                inputs, outputs = module.in_features, module.out_features
                variance = 0.1 / inputs if module in self.ends else 2 / (inputs + outputs)
                limit = (3 * variance) ** 0.5
                nn.init.uniform_(module.weight, -limit, limit)
                nn.init.zeros_(module.bias)

    @property
    def ends(self) -> list[nn.Linear]:
        """The first and the last layer of each stream. The authors scale and regularise only these."""
        return [layer for stream in (self.values, self.differences) for layer in (stream.enter, stream.leave)]

    def forward(self, normalised: Tensor) -> Tensor:
        streams = self.values(normalised), self.differences(normalised.diff(dim=1))
        return self.head(torch.cat(streams, dim=1)).tanh()[:, 0]

    def penalty(self) -> Tensor:
        """The L1 regularisers of the authors' code, on the first and the last layer of each stream."""
        each = (1e-6 * layer.weight.abs().sum() + 0.1 * layer.bias.abs().sum() for layer in self.ends)
        return sum(each, torch.zeros(()))


def normalise(history: Tensor) -> tuple[Tensor, Tensor]:
    """Normalise histories [n, 5], first value first. Returns them [n, 5], and the unit of each [n]."""
    spread = history.amax(1) - history.amin(1) + 1e-8
    unit = 2 * (spread + 1e-5)
    return (history - history[:, :1]) / unit[:, None], unit


def forecast(forecaster: Forecaster, history: Tensor, published_bias: bool = False) -> Tensor:
    """The forecasts [n] of histories [n, 5]; `published_bias` has the authors' error (see the options)."""
    normalised, unit = normalise(history)
    last = history[:, -1] if published_bias else normalised[:, -1]
    return (last + forecaster(normalised)) * unit + history[:, 0]
