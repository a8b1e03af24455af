"""MP2: workers push a prefix of the layers, and a frozen network predicts the other layers from it.

Sources read: the code of the authors of Liu et al., Computer Networks 255, 110883, 2024, repository
MP2-GitHub/Model-Parameter-Prediction-Method-for-Distributed-Machine-Learning on github.com:

* cifar10-AlexNet at commit 4a782c9: mp2_alexnet_functions.py (inference), mp2_alexnet_worker.py and
  mp2_alexnet_ps.py.
* MNIST-LeNet5 at commit ae16451: mp2-train-stage.py (forward_propagation), lenet5-worker.py and
  mp2-deploy-stage-ps.py (BSP.predict).
* cifar10-downsizedResNet-18 at commit cd12202: mp2-train-stage.py (forward_propagation) and mp2-ps.py.

Its seblock.py is not among the files that could be read. Of the paper, the abstract in the README was read.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from .sgd import Run, Tensors, copy_tensors, mean_over_workers

Layer = tuple[np.ndarray, np.ndarray | None]
Predictor = Mapping[str, np.ndarray]
# kind ("conv" or "linear"), shape of the weight in PyTorch's layout, whether there is a bias
LayerShape = tuple[str, tuple[int, ...], bool]

FOLD = 64  # 8 rows of 8 columns: the placeholder input_x of AlexNet and ResNet-18


def flatten(layers: Sequence[Layer]) -> np.ndarray:
    """Return the layers' values as one vector: each layer's weight, then its bias if it has one.

    A weight is given in PyTorch's layout and read row-major in the published (TensorFlow) one:

        convolution:  (cout, cin, kh, kw) -> (kh, kw, cin, cout)
        linear:       (out, in) -> (in, out)

    Source: shape_process1 in the workers reshapes every variable and appends it, weight and bias in turn;
    the slices in inference reshape them to [kh, kw, cin, cout] and [in, out].
    """
    parts = []
    for weight, bias in layers:
        published = np.transpose(weight, (2, 3, 1, 0) if weight.ndim == 4 else (1, 0))
        parts.append(published.reshape(-1))
        if bias is not None:
            parts.append(bias.reshape(-1))
    return np.array(np.concatenate(parts), dtype=np.float64)


def count_values(weight_shape: Sequence[int], bias: bool) -> int:
    """Return how many values a layer has: those of its weight, and one bias for every output."""
    return math.prod(weight_shape) + (weight_shape[0] if bias else 0)


def unflatten(values: np.ndarray, weight_shape: Sequence[int], bias: bool) -> Layer:
    """Return one layer's weight, in PyTorch's layout, and its bias (or None): undoes flatten.

    The last weight_shape[0] values are the bias, if there is one.
    """
    size = math.prod(weight_shape)
    if len(weight_shape) == 4:
        cout, cin, kh, kw = weight_shape
        weight = np.transpose(values[:size].reshape(kh, kw, cin, cout), (3, 2, 0, 1))
    else:
        out, inputs = weight_shape
        weight = np.transpose(values[:size].reshape(inputs, out), (1, 0))
    return weight.copy(), values[size:].copy() if bias else None


def relu(x: np.ndarray) -> np.ndarray:
    """Return max(x, 0), entry by entry."""
    return np.maximum(x, 0.0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x)), entry by entry, written so that exp never overflows."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def affine(predictor: Predictor, name: str, x: np.ndarray) -> np.ndarray:
    """Return name.weight @ x + name.bias."""
    return predictor[f"{name}.weight"] @ x + predictor[f"{name}.bias"]


def conv3x3(image: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the cross-correlation with 3 x 3 kernels, stride 1, zero padding 1.

        out[o, y, x] = bias[o] + sum over c, i, j of weight[o, c, i, j] * image[c, y+i-1, x+j-1]

    where the image (channels, rows, columns) is zero outside.

    Source: tf.nn.conv2d with padding SAME in layer1-Conv1 to layer3-Conv3, and a bias.
    """
    channels, rows, columns = image.shape
    padded = np.zeros((channels, rows + 2, columns + 2))
    padded[:, 1 : rows + 1, 1 : columns + 1] = image

    out = np.zeros((weight.shape[0], rows, columns))
    for o in range(weight.shape[0]):
        for y in range(rows):
            for x in range(columns):
                out[o, y, x] = bias[o] + np.sum(weight[o] * padded[:, y : y + 3, x : x + 3])
    return out


def max_pool(image: np.ndarray) -> np.ndarray:
    """Return the largest entry of every 2 x 2 square of every channel, stride 2.

    Source: pool1-Layer to pool3-Layer, with padding VALID.
    """
    channels, rows, columns = image.shape
    out = np.zeros((channels, rows // 2, columns // 2))
    for c in range(channels):
        for y in range(rows // 2):
            for x in range(columns // 2):
                out[c, y, x] = np.max(image[c, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2])
    return out


def attend(predictor: Predictor, name: str, image: np.ndarray) -> np.ndarray:
    """Return the image with every channel c multiplied by e[c], its attention.

        s[c] = mean of channel c
        t = relu(squeeze.weight @ s + squeeze.bias)
        e = sigmoid(excite.weight @ t + excite.bias)

    Source: reconstruction. The authors call SE_block(a, ratio=4) from their seblock.py. This is the usual
    block of that name, with a fourth of the channels between squeeze and excite. Whether theirs has biases
    could not be seen.
    """
    s = np.array([np.mean(channel) for channel in image])
    t = relu(affine(predictor, f"{name}.squeeze", s))
    e = sigmoid(affine(predictor, f"{name}.excite", t))
    return np.array([e[c] * image[c] for c in range(image.shape[0])])


def block(predictor: Predictor, name: str, image: np.ndarray) -> np.ndarray:
    """Return the image after convolution, ReLU, attention and pooling.

    Source: inference, layer1-Conv1 and pool1-Layer, and the same for 2 and 3.
    """
    out = conv3x3(image, predictor[f"{name}.conv.weight"], predictor[f"{name}.conv.bias"])
    return max_pool(attend(predictor, f"{name}.attention", relu(out)))


def encode(prefix_vector: np.ndarray, predictor: Predictor) -> np.ndarray:
    """Return the 8 features of the prefix, one per channel of a 1 x 1 image.

    If the prefix's length p is divisible by 64, it is folded:

        8 rows of 8 columns of p / 64 channels, channel fastest
        blocks 0, 1, 2:  8 x 8 -> 4 x 4 -> 2 x 2 -> 1 x 1

    Otherwise it is mixed:

        m = relu(mix.weight @ prefix + mix.bias)       64 numbers
        m = attention of m as a 1 x 1 image of 64 channels
        8 rows of 8 columns of 1 channel, max-pooled to 4 x 4
        blocks 0, 1:  4 x 4 -> 2 x 2 -> 1 x 1

    Source of folded: inference of AlexNet and forward_propagation of ResNet-18. Source of mixed:
    forward_propagation of LeNet-5, whose layer1-Conv1 is a 1 x 1 convolution of a 1 x 1 image. That the
    length decides which of the two is used is a reconstruction: 617344 and 185664 are divisible by 64, 2572
    is not.
    """
    p = prefix_vector.size
    if p % FOLD == 0:
        image = np.transpose(prefix_vector.reshape(8, 8, p // FOLD), (2, 0, 1))
        blocks = 3
    else:
        mixed = relu(affine(predictor, "mix", prefix_vector))
        mixed = attend(predictor, "attention", mixed.reshape(64, 1, 1))
        image = max_pool(mixed.reshape(1, 8, 8))
        blocks = 2

    for i in range(blocks):
        image = block(predictor, f"blocks.{i}", image)
    return image.reshape(8)


def predict(prefix_vector: np.ndarray, rest: Sequence[LayerShape], predictor: Predictor) -> Tensors:
    """Return, for every layer of rest, its values as one vector, as flatten would order them.

    With the features f = encode(prefix), for the i-th convolution, of n values:

        a = relu(conv_code.weight @ f + conv_code.bias)                  64 numbers
        v = conv_layers.i                                                ceil(n / 64) numbers
        values = the first n of a[0] * v, a[1] * v, a[2] * v, ...

    and for the i-th linear layer:

        values = linear_layers.0 @ f                                     if it is the only one
        b = relu(linear_code.weight @ f + linear_code.bias)              64 numbers
        values = linear_layers.i @ b                                     if there are several

    Convolutions and linear layers are counted apart, each from 0.

    Source: inference, Decoder-1 and Decoder-2. conv_layers.i is a 1 x 1 convolution of the code as an 8 x 8
    image, so the position is the slower index. It has no bias, and neither have the linear layers. ResNet-18
    has a single linear layer, without a code. Cutting values if 64 does not divide their number is a
    reconstruction, because it divides the sizes of all the authors' convolutions.
    """
    parameters = {name: np.array(value, dtype=np.float64) for name, value in predictor.items()}
    features = encode(np.array(prefix_vector, dtype=np.float64).reshape(-1), parameters)

    convs = sum(kind == "conv" for kind, _, _ in rest)
    linears = sum(kind == "linear" for kind, _, _ in rest)
    if convs > 0:
        conv_code = relu(affine(parameters, "conv_code", features))
    if linears == 1:
        linear_code = features
    elif linears > 1:
        linear_code = relu(affine(parameters, "linear_code", features))

    predicted = []
    conv = linear = 0
    for kind, weight_shape, bias in rest:
        n = count_values(weight_shape, bias)
        if kind == "conv":
            v = parameters[f"conv_layers.{conv}"]
            predicted.append(np.concatenate([a * v for a in conv_code])[:n])
            conv += 1
        else:
            predicted.append(parameters[f"linear_layers.{linear}"] @ linear_code)
            linear += 1
    return predicted


def group_layers(tensors: Sequence[np.ndarray]) -> list[Layer]:
    """Return the tensors as layers: one with several dimensions begins a layer, a vector ends it."""
    layers: list[Layer] = []
    for tensor in tensors:
        if tensor.ndim > 1:
            layers.append((tensor, None))
        else:
            layers[-1] = (layers[-1][0], tensor)
    return layers


def train(
    run: Run,
    pushed: int,
    rest: Sequence[LayerShape],
    predictor: Predictor,
    constant_prefix: np.ndarray | None = None,
) -> Iterator[Tensors]:
    """Yield, for every step, the server's weights after that step, which all workers then hold.

    The first `pushed` tensors are the prefix; the others are the layers of rest, in order, each
    its weight and then, if it has one, its bias. At every step t, with the full model w, which
    is (prefix, later layers), and worker k's gradient g_k at w:

        q_k = Optimizer_k(prefix of w, prefix of g_k, lr(t))
        q = (1/K) * sum_k q_k
        w = (q, predict(flatten(q)))       w = q if rest is empty

    With a constant_prefix, predict sees it instead of q. This is the benchmark's own.

    The workers' optimizers see only the prefix and are never reset. The predictor never changes. The first
    gradients are taken at the given weights, whose later layers are not yet predicted.

    Source of the worker: lenet5-worker.py, compute_cost and main; the stored text ends at the first push.
    One session run does three things. It replaces all variables by what the server gave last, at first its
    initial ones. It takes a step of tf.train.AdamOptimizer on the pushed variables only. It fetches these
    to be sent. Their order is not stated there; the order here is a reconstruction.

    Source of the server: BSP.predict of LeNet-5 and ResNet-18. The mean of what all workers sent goes
    through the network (in AlexNet, what one worker sent). The answer has that mean for the pushed layers.
    SGD instead of Adam is the benchmark's.
    """
    server, optimizer_of = copy_tensors(run.weights), run.optimizers()

    for step in range(run.steps):
        gradients = [own[:pushed] for own in run.gradients(step, [server] * run.workers)]
        prefixes = [copy_tensors(server[:pushed])] * run.workers
        server = mean_over_workers(run.stepped(step, optimizer_of, prefixes, gradients))
        if rest:
            seen = flatten(group_layers(server)) if constant_prefix is None else constant_prefix
            predicted = predict(seen, rest, predictor)
            for (_, weight_shape, bias), values in zip(rest, predicted, strict=True):
                layer_weight, layer_bias = unflatten(values, weight_shape, bias)
                server += [layer_weight] if layer_bias is None else [layer_weight, layer_bias]
        yield copy_tensors(server)
