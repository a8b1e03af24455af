"""Local SGD, after a first phase of synchronous SGD (post-local SGD).

Sources read:

* The authors of post-local SGD: github.com/epfml/LocalSGD-Code, distributed_code/pcode/optim/local_sgd.py
  (class LocalSGD) at commit 8bfc7dc, pcode/create_scheduler.py and pcode/distributed_running_cv.py at
  commit 63aacc0.
* torch 2.13: torch/distributed/algorithms/ddp_comm_hooks/post_localSGD_hook.py, and class
  PeriodicModelAverager in torch/distributed/algorithms/model_averaging/averagers.py.

The two differ; train() says where this reference differs from each.
"""

from collections.abc import Iterator

from .sgd import Run, Tensors, copy_tensors, mean_over_workers


def train(run: Run, period: int, switch_epoch: float = 0, momentum_policy: str = "keep") -> Iterator[Tensors]:
    """Yield, for every step, the mean over the workers of their weights after that step.

    Steps t < switch_epoch * steps_per_epoch are synchronous (ssgd.py). At every later step, with
    worker k's gradient g_k at its own weights w_k and H the period:

        w_k = Optimizer_k(w_k, g_k(w_k), lr(t))
        w_k = (1/K) * sum_j w_j     after local steps number H, 2H, 3H, ... and after the last step

    Local steps are counted from the switch; the first is number 1. Each worker has its own momentum
    buffer, which is carried over the switch and never averaged. With momentum_policy "reset" it is set
    to zero whenever the weights are averaged.

    Source of the first phase: torch's hook averages gradients, so that the buffers stay equal. There,
    LocalSGD averages weights at every step, and every worker's buffer sees only its own gradients.

    Source of the second phase: LocalSGD.step and torch's averager step first, average then, and do not
    change the buffers. After which steps they average is the benchmark's. torch averages after numbers
    1, H + 1, 2H + 1, ... of the same count, LocalSGD after the steps of the whole run whose number, counted
    from 0, H divides. The average after the last step and "reset" are the benchmark's own.
    """
    weights_of, optimizer_of = run.replicas(), run.optimizers()
    local_steps = 0

    for step in range(run.steps):
        gradients = run.gradients(step, weights_of)
        # LocalSGD: epoch_ < turn_on_local_step_from, where epoch_ is local_index / batches per epoch
        is_synchronous = step < switch_epoch * run.steps_per_epoch
        if is_synchronous:
            # post_localSGD_hook while iter < start_localSGD_iter
            gradients = [mean_over_workers(gradients)] * run.workers
        else:
            local_steps += 1
        weights_of = run.stepped(step, optimizer_of, weights_of, gradients)

        if not is_synchronous and (local_steps % period == 0 or step == run.steps - 1):
            # LocalSGD: the consensus less the mean of its differences to the weights, which is their mean
            mean_weights = mean_over_workers(weights_of)
            weights_of = [copy_tensors(mean_weights) for _ in range(run.workers)]
            if momentum_policy == "reset":
                for optimizer in optimizer_of:
                    optimizer.reset()
        yield mean_over_workers(weights_of)
