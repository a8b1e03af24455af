"""MP2: the first layers are trained and pushed, and a small network predicts the other layers from them.

    worker: p_i <- optimizer(p, g_i) on the prefix p, the parameters of the first layers; p_i is pushed
    server: p <- 1/W sum_i p_i;  w <- (p, predictor(p));  every worker pulls the whole model w

Source: Liu et al., "MP2" (Computer Networks 255, 110883, 2024), after the authors' code (github
MP2-GitHub/Model-Parameter-Prediction-Method-for-Distributed-Machine-Learning, commit 4ec0b67). The code
differs from what the abstract suggests in two ways. The pushed layers are always the same. The predictor is
trained on the loss of the model, not on the distance between weights.

The predictor is made once for each model, data set and seed, from a whole dense run (`prepare`). Afterwards
it does not change. The cost of its preparation is reported with every result.

The prefix is everything before the third resolution. This is so in all models of the authors except
ResNet-50, whose prefix ends one convolution earlier. Each worker keeps its own state of the recipe's
optimizer. There is one server, on the first worker. MP2 was published with Adam, mixup and models without
batch norm; so is `config/claims/mp2.yaml`.

Deviations from the authors' code:
- The dense run and the predictor train on nine tenths of the training images. The best predictor is chosen on
  the others, by its accuracy with the last prefix; the code chooses it on the test set.
- Images are standardised (in the code: divided by 255). Numbers are sent in single precision (double).
- The initial weights are the model's.

Defaults are those of the authors' VGG. The authors' other settings: they trained the predictor for 10 epochs
on LeNet and 5 on AlexNet. On ResNet-18 they took 200 prefixes a batch, and 40 batches of images from the
whole set. On ResNet-50 they halved the rate, and on AlexNet they had 4 workers.

The engine computes all gradients; those of predicted layers are not used. Batch norm is refused.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from safetensors.torch import load_file

import thinwire

from .layers import flatten_all, shapes_of, split, unflatten_all, why_not
from .predictor import Predictor
from .predictor_training import train_predictor
from .record_prefixes import record_prefixes

PREDICTOR = "predictor.safetensors"
EVERYTHING = 1000  # stages: more than any model has


class Method(thinwire.Method):
    # With everything pushed nothing is predicted: parameter averaging on a server.
    equals_ssgd = [{"pushed_stages": EVERYTHING}, {"pushed_stages": EVERYTHING, "nodes": 2}]
    short = {"predictor_epochs": 8, "bsp_workers": 2}

    provenance = (
        thinwire.Part("few layers are sent, others predicted", "certain", "the abstract"),
        thinwire.Part("first layers, always the same", "from code", "all before the third resolution"),
        thinwire.Part("weights are pushed, not gradients", "from code", "each worker steps by itself"),
        thinwire.Part(
            "one server sends the whole model back", "from code", "after a mean of what was pushed"
        ),
        thinwire.Part("the predictor's layers", "from code", "a small network for each model"),
        thinwire.Part(
            "it is trained on the model's loss", "from code", "and not on the distance between weights"
        ),
        thinwire.Part("weights of 15 random steps an epoch", "from code", "of a whole dense run"),
        thinwire.Part("it does not change afterwards", "from code", "the server only applies it"),
        thinwire.Part("nine tenths of the images train it", "ours", "the code chooses it on the test set"),
        thinwire.Part(
            "standardised images, single precision", "ours", "the code divides by 255, in double precision"
        ),
        thinwire.Part("initial weights of the model", "ours", "methods start alike here"),
        thinwire.Part("no batch norm", "ours", "the authors' models have none"),
    )

    @dataclass
    class Config:
        pushed_stages: Annotated[int, Field(ge=1)] = (
            2  # number of first stages that are trained and pushed; the others are predicted
        )
        bsp_workers: Annotated[int, Field(ge=1)] = 8  # workers of the dense run from which it is prepared
        prefixes_per_epoch: Annotated[int, Field(ge=1)] = 15  # steps of that run whose prefix is kept
        prefixes_per_batch: Annotated[int, Field(ge=1)] = 25  # one of them, at random, trains the predictor
        predictor_epochs: Annotated[int, Field(ge=1)] = 30  # passes over the prefixes
        predictor_lr: Annotated[float, Field(gt=0)] = 1e-3  # learning rate of the predictor's Adam
        images_share: Annotated[float, Field(gt=0, le=1)] = 0.25  # of each class, drawn anew for each batch
        images_per_step: Annotated[int, Field(ge=1)] = 125  # images in one step of the predictor's training

    @classmethod
    def prepare(cls, config, job, folder):
        model = job.task.build_model()
        if why_not(model, config.pushed_stages) is None and split(model, config.pushed_stages)[1]:
            prefixes = record_prefixes(cls, config, EVERYTHING, job)
            train_predictor(config, job, prefixes, folder / PREDICTOR)

    def skip(self):
        return why_not(self.run.model, self.config.pushed_stages)

    def optimizer(self, params):
        pushed, _ = split(self.run.model, self.config.pushed_stages)
        return self.run.make_optimizer([param.tensor for layer in pushed for param in layer])

    def setup(self):
        pushed, predicted = split(self.run.model, self.config.pushed_stages)
        self.pushed = [[param.tensor.data for param in layer] for layer in pushed]
        self.shapes = shapes_of([*pushed, *predicted])
        self.server = CompletingServer(self.prepared / PREDICTOR if predicted else None, shapes_of(predicted))

    def step(self):
        self.run.optimizer.step()
        push = {"weights": flatten_all(self.pushed)}
        pull = self.run.world.push_pull(0, push, self.server).wait()["weights"]
        torch._foreach_copy_(self.run.weights, unflatten_all(pull, self.shapes))


class CompletingServer(thinwire.Server):
    """Averages the prefixes and completes the model with the predictor, which never changes."""

    def __init__(self, file, shapes):
        super().__init__({})
        self.file, self.shapes, self.predictor = file, shapes, None

    def update(self, pushes):
        first, *others = [push["weights"] for push in pushes]
        # Sum differences, so that the mean of equal prefixes is exactly that prefix.
        mean = first + sum(prefix - first for prefix in others) / len(pushes) if others else first
        if self.file is None:
            return {"weights": mean}
        if self.predictor is None:
            self.predictor = Predictor(len(mean), self.shapes).to(mean)
            self.predictor.load_state_dict(load_file(self.file, device=str(mean.device)))
        return {"weights": torch.cat([mean, *self.predictor(mean)])}
