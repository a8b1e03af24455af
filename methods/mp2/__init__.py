"""MP2: the first layers are trained and pushed, and a small network predicts the other layers from them.

    worker: p_i <- optimizer(p, g_i) on the prefix p, the parameters of the first layers; p_i is pushed
    server: p <- 1/W sum_i p_i;  w <- (p, predictor(p));  every worker pulls the whole model w

Source: Liu et al., "MP2" (Computer Networks 255, 110883, 2024), after the authors' code (github
MP2-GitHub/Model-Parameter-Prediction-Method-for-Distributed-Machine-Learning, commit 4ec0b67). The code
differs from what the abstract suggests in two ways. The pushed layers are always the same. The predictor is
trained on the loss of the model, not on the distance between weights.

The predictor is made once for each model, data set and seed, from a whole dense run (`prepare`). Afterwards
it does not change. The cost of its preparation is reported with every result.

The prefix is everything before the third resolution; in ResNets before the fourth, because the first has only
one convolution. This is so in all models of the authors except ResNet-50, whose prefix ends one convolution
earlier. Each worker keeps its own state of the recipe's optimizer. There is one server, on the first worker.
MP2 was published with Adam, models without batch norm and, except for LeNet, mixup; so is
`config/claims/mp2.yaml`.

Deviations from the authors' code:
- The dense run and the predictor train on nine tenths of the training images. The best predictor is chosen on
  the others; the code chooses it on the test set.
- The prefixes are visited in random order, and the predictor's accuracy is measured after each pass, with the
  last recorded prefix. The code visits them in the order in which they were recorded. It measures after each
  batch (LeNet: after each pass), with the prefix that was drawn last.
- Images are standardised (in the code: divided by 255). Numbers are sent in single precision (double).
- The initial weights are the model's.

Defaults are those of the authors' VGG. `preset: published` takes their constants for the model, and pushes
the prefix in 64 bits, as their code does. Where the constants differ from the defaults, they are:

    LeNet                     10 epochs of the predictor, 50 prefixes a batch, all images
    AlexNet                   5 epochs of the predictor, 4 workers of the dense run
    ResNet-18, ten classes    200 prefixes a batch, a tenth of the images

On that ResNet-18 the code draws 40 batches of 125 images, whatever their classes. On ResNet-50 it halves the
workers' rate, which is the recipe's here. Widths of layers are those of the models `lenet` and `mp2_*`.

Control. With `predictor: constant` the same predictor sees the mean of the recorded prefixes at every step.
Its answer does not depend on what is pushed. If MP2 is no better, its predictor has only stored a model.

No gradients of predicted layers are computed, because nothing needs them. Batch norm is refused.
"""

from pathlib import Path

import torch
from torch import nn

import thinwire

from .layers import EVERYTHING, flatten_all, shapes_of, split, unflatten_all, why_not
from .options import Options, with_authors_constants
from .predictor_training import train_predictor
from .provenance import PROVENANCE
from .record_prefixes import record_prefixes
from .server import PREDICTOR, CompletingServer, write_mean_prefix


class Method(thinwire.Method):
    Config = Options
    config: Options
    # With everything pushed nothing is predicted: parameter averaging on a server.
    equals_ssgd = [
        {"pushed_stages": EVERYTHING, "linear": True},
        {"pushed_stages": EVERYTHING, "linear": True, "nodes": 2},
        {"pushed_stages": EVERYTHING, "linear": True, "preset": "published"},
    ]
    short = {"predictor_epochs": 8, "bsp_workers": 2}

    provenance = PROVENANCE

    @classmethod
    def prepare(cls, config: Options, job: thinwire.Job, folder: Path) -> None:
        model = job.task.build_model()
        if why_not(model, config.pushed_stages) is None and split(model, config.pushed_stages)[1]:
            config = with_authors_constants(config, job.model, model, job.task.data.classes)
            prefixes = record_prefixes(cls, config, EVERYTHING, job)
            train_predictor(config, job, prefixes, folder / PREDICTOR)
            if config.predictor == "constant":
                write_mean_prefix(prefixes, folder)

    def skip(self) -> str | None:
        return why_not(self.run.model, self.config.pushed_stages)

    def optimizer(self, params: list[nn.Parameter]) -> torch.optim.Optimizer:
        pushed, _ = split(self.run.model, self.config.pushed_stages)
        return self.run.make_optimizer([param.tensor for layer in pushed for param in layer])

    def setup(self) -> None:
        pushed, predicted = split(self.run.model, self.config.pushed_stages)
        self.trained = {param.index for layer in pushed for param in layer}
        self.pushed = [[param.tensor.data for param in layer] for layer in pushed]
        self.shapes = shapes_of([*pushed, *predicted])
        self.server = CompletingServer(
            folder=self.prepared if predicted else None,
            shapes=shapes_of(predicted),
            dtype=self.run.weights[0].dtype,
            constant=self.config.predictor == "constant",
        )

    def wants_gradient(self, param: thinwire.Param) -> bool:
        return param.index in self.trained

    def step(self) -> None:
        self.run.optimizer.step()
        prefix = flatten_all(self.pushed)
        push = {"weights": prefix.double() if self.config.preset == "published" else prefix}
        pull = self.run.world.push_pull(0, push, self.server).wait()["weights"]
        torch._foreach_copy_(self.run.weights, unflatten_all(pull, self.shapes))
