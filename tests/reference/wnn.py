"""WNN, the weight nowcaster network: every scalar weight jumps to its forecast from five values.

Sources read: the authors' code of Jang et al., "Learning to Boost Training by Periodic Nowcasting Near
Future Weights", ICML 2023, github.com/jjh6297/WNN, at commit 3e47d78: WNN_Pytorch/WNN.py (Keras),
WNN_Pytorch/model.py and wnn_callback.py (PyTorch). TensorFlow's documentation of LeakyReLU, releases 2.3
to 2.14. The paper was not read.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from .sgd import Run, Tensors, copy_tensors, mean_over_workers

Network = dict[str, np.ndarray]

LENGTH = 5  # recorded values that a forecast is made from
SLOPE = 0.3  # of the leaky ReLU where its argument is negative: the default of Keras


def affine(network: Network, name: str, x: np.ndarray) -> np.ndarray:
    """Return name.weight @ x + name.bias."""
    weight = np.asarray(network[f"{name}.weight"], dtype=np.float64)
    bias = np.asarray(network[f"{name}.bias"], dtype=np.float64)
    return weight @ x + bias


def stream(network: Network, name: str, x: np.ndarray) -> np.ndarray:
    """Return the 32 features of one of the two streams, "values" or "differences", for its input x.

        h = enter(x)                                      64 numbers
        c = max(0, narrow(h))                              8
        y = shift(c) + scale(c) * exp(rate(c) * h)        64
        z = leave(y)                                      32
        features = z where z >= 0, 0.3 * z elsewhere

    enter, narrow, shift, scale, rate and leave are affine maps, each with its own weight and bias;
    products of vectors are entry by entry.

    Source: WNN.py, functions WNN and trAct_1D_Exp with numExp 3: its loop over range(2, 3) makes one
    exponential term; model.py, WNN.forward, has the same. The slope is the default of Keras' LeakyReLU,
    0.3, with which WNN.py makes the networks; model.py has PyTorch's default.
    """
    h = affine(network, f"{name}.enter", x)  # WNN: Dense(64)
    # trAct_1D_Exp: x2 = Dense(8, relu); then Dense(x2) + Dense(x2) * exp(Dense(x2) * x)
    c = np.maximum(0.0, affine(network, f"{name}.narrow", h))
    growth = np.exp(affine(network, f"{name}.rate", c) * h)
    y = affine(network, f"{name}.shift", c) + affine(network, f"{name}.scale", c) * growth
    z = affine(network, f"{name}.leave", y)  # WNN: Dense(32), then LeakyReLU
    return np.where(z >= 0, z, SLOPE * z)


def forecast_scalar(values: np.ndarray, network: Network, published: bool = False) -> float:
    """Return the forecast of one scalar weight from its five recorded values w_1, ..., w_5.

        d = max(w_1, ..., w_5) - min(w_1, ..., w_5) + 1e-8
        W_k = (w_k - w_1) / (d + 1e-5) / 2                          k = 1, ..., 5
        D_k = W_{k+1} - W_k                                         k = 1, ..., 4
        f = tanh(head(values(W), differences(D)))                   in [-1, 1]
        forecast = (W_5 + f) * (d + 1e-5) * 2 + w_1
                 = w_5 + 2 * (d + 1e-5) * f                         up to rounding

    With published, w_5 stands in place of W_5 in the first form of the forecast.

    Source: WNN.py, functions get_ConvLayer_pred, get_FCLayer_pred and, for published, get_BiasLayer_pred,
    which has a bug: it adds f to the raw last value, not to the normalised one. Its minval is w_1.
    """
    first = float(values[0])
    last = float(values[LENGTH - 1])
    d = float(np.max(values)) - float(np.min(values)) + 1e-8

    normalised = (values - first) / (d + 1e-5) / 2
    # WNN.py: Layer[:, 1:NumLength] - Layer[:, 0:NumLength-1], of the normalised values
    differences = normalised[1:] - normalised[:-1]
    features = np.concatenate(
        [stream(network, "values", normalised), stream(network, "differences", differences)]
    )
    # WNN: Dense(1, tanh) of both streams' features, those of the values first
    f = math.tanh(float(affine(network, "head", features)[0]))

    start = last if published else float(normalised[LENGTH - 1])
    return (start + f) * (d + 1e-5) * 2 + first


def forecast(history: np.ndarray, network: Network, published: bool = False) -> np.ndarray:
    """Return the forecast of a whole tensor, every entry by itself, with forecast_scalar.

    history[k] is the tensor as recorded at time k + 1, k = 0, ..., 4. The network has, for each
    stream s, "values" with 5 inputs and "differences" with 4, and for each of its layers a weight
    [out, in] and a bias [out]:

        s.enter [64, inputs]   s.narrow [8, 64]   s.shift, s.scale, s.rate [64, 8]   s.leave [32, 64]

    and head [1, 64], whose inputs are the features of "values", then those of "differences": 9425
    numbers in all.

    Source: WNN.py, function WNN, for the sizes; the names of the layers are ours.
    """
    values = np.asarray(history, dtype=np.float64)
    predicted = np.zeros(values.shape[1:])
    for position in np.ndindex(predicted.shape):
        of_scalar = np.array([values[k][position] for k in range(LENGTH)])
        predicted[position] = forecast_scalar(of_scalar, network, published)
    return predicted


def train(
    run: Run,
    kinds: Sequence[str],
    networks: Mapping[str, Network],
    period: int,
    bias_rule: str = "normalised",
) -> Iterator[Tensors]:
    """Yield, for every step, the common weights after that step and its jump, if it has one.

    kinds names every tensor "conv", "linear", "bias" or "norm"; networks has a network for each of
    the first three. At every step t = 0, 1, ... with worker k's gradient g_k at the weights w:

        G = (1/K) * sum_k g_k
        w = Optimizer(w, G, lr(t))
        if (t + 1) % period == 0:
            record w                                           (all tensors but kind "norm")
            if five values are recorded:
                w = forecast(the five, network of its kind)    (the same tensors)
                forget the five

    So there is a jump after every 5 * period steps. The weights after a jump are not recorded; the next
    recorded value is that after another period. With bias_rule "published", tensors of kind "bias" are
    forecast with the published code's bug. A jump does not change the optimizer's buffer.

    Source: WNN.py, class WeightForecasting. There the period is an epoch, and the jumps come after epochs
    5, 10, 15, ... (epoch % 5 == 4, counted from 0). It takes layers with fewer than four arrays, so not
    batch normalisation. It has a network for convolutions, one for dense layers and one for biases. The
    workers, whose gradients are averaged, are the benchmark's.
    """
    common, optimizer = copy_tensors(run.weights), run.optimizers()[0]
    recorded: list[Tensors] = []

    for step in range(run.steps):
        mean_gradient = mean_over_workers(run.gradients(step, [common] * run.workers))
        common = optimizer.step(common, mean_gradient, run.learning_rate(step))

        if (step + 1) % period == 0:
            # on_epoch_end: the weights go into place epoch % 5; after place 4 the layers get the forecasts
            recorded.append(copy_tensors(common))
            if len(recorded) == LENGTH:
                for index, kind in enumerate(kinds):
                    if kind != "norm":
                        values = np.stack([tensors[index] for tensors in recorded])
                        published = kind == "bias" and bias_rule == "published"
                        common[index] = forecast(values, networks[kind], published)
                recorded = []
        yield copy_tensors(common)
