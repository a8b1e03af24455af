"""Full memory in a convolution is trouble and no result: a sentence, exit code 2, and nothing published.

Also collects what torch and CUDA's libraries say when less and less memory is left, because full memory is
recognised by such words.
"""

import multiprocessing
import resource
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from gpu_parts.own_project import SUITE, Project, records
from gpu_parts.part import Found, Place, first_line
from thinwire.base.errors import shortage

CELL = "digits/wide/ssgd/w2/seed0"
TROUBLE = 2
BATCH = 512  # of each of two workers
WIDTH = 2**16  # output maps of 8 x 8: one worker's take 8 GiB
# A process and its GPU's context need less.
LEFT_FOR_THE_RUN = 5 * 2**30
# Megabytes that a process leaves to itself before it computes.
LEFT = (1, 8, 32, 128, 512)
# Memory is occupied in pieces, because the driver gives less than all that is free. torch asks it for 2 MiB.
LARGEST_PIECE, SMALLEST_PIECE = 2**30, 2**21


def part(place: Place, found: Found) -> None:
    """Let a run of the command line fail, and then smaller computations.

    The computations are in forks of this process, so they come before it uses the device.
    """
    said: dict[str, bool] = {}
    for left in LEFT[:1] if place.small else LEFT:
        fork = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(1, mp_context=fork) as process:
            said |= process.submit(_compute_in, left * 2**20, place).result()
    found.figures["said"] = {
        text: "recognised" if known else "not recognised" for text, known in said.items()
    }
    found.broken += [f"full memory is not recognised: {text}" for text, known in said.items() if not known]
    with tempfile.TemporaryDirectory(prefix="thinwire-project-") as folder:
        project = Project(Path(folder), place, WIDTH, recipe={"batch": 2 * BATCH, "epochs": 1})
        occupied = _fill(place, LEFT_FOR_THE_RUN)
        # A GPU has no limit for one process, so all but this is taken; a process of a CPU has one.
        enter = (
            None if place.is_gpu else partial(resource.setrlimit, resource.RLIMIT_AS, (LEFT_FOR_THE_RUN,) * 2)
        )
        answer = project.thinwire("run", SUITE, CELL, expect=TROUBLE, enter=enter)
        del occupied
        sentences = [line for line in answer.stderr.splitlines() if line.startswith("thinwire: ")]
        found.figures["sentence"] = "".join(sentences).removeprefix("thinwire: ")
        if len(sentences) != 1 or answer.stderr.strip() != sentences[0]:
            found.broken.append(
                f"full memory is told in more than a sentence: {answer.stderr.strip()[-500:]}"
            )
        if published := records(project.folder / "results"):
            found.broken.append(f"full memory is published: {published[0]}")


def _fill(place: Place, left: int) -> list[Tensor]:
    """Occupy all memory of a GPU but about this much, in bytes."""
    occupied: list[Tensor] = []
    piece = LARGEST_PIECE
    while place.is_gpu and piece >= SMALLEST_PIECE:
        free, _ = torch.cuda.mem_get_info(place.device)
        try:
            if free - left >= piece:
                occupied.append(torch.empty(piece, dtype=torch.uint8, device=place.device))
                continue
        except torch.OutOfMemoryError:
            pass  # the driver keeps some of what is free
        piece //= 2
    return occupied


def _compute_in(left: int, place: Place) -> dict[str, bool]:
    """What is raised when so many bytes are left, each in a line, and whether it is known as a shortage."""
    said: dict[str, bool] = {}
    occupied = _fill(place, left)
    for compute in (_convolve, _multiply):
        for size in (16, 64, 256) if place.is_gpu else (16,):
            try:
                compute(size, place.device)
                place.wait()
            except RuntimeError as error:
                said[first_line(error)[:200]] = shortage(error) is not None
    del occupied
    return said


def _convolve(size: int, device: torch.device) -> None:
    images = torch.ones(size, 32, 16, 16, device=device, requires_grad=True)
    weights = torch.ones(64, 32, 3, 3, device=device, requires_grad=True)
    functional.conv2d(images, weights, padding=1).sum().backward()


def _multiply(size: int, device: torch.device) -> None:
    matrix = torch.ones(16 * size, 16 * size, device=device, requires_grad=True)
    (matrix @ matrix).sum().backward()
