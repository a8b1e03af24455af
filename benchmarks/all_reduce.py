"""All-reduces of torch alone on the ranks of srun: what a cluster's network gives, whatever thinwire does.

    srun --nodes=2 --ntasks=8 --ntasks-per-node=4 .venv/bin/python benchmarks/all_reduce.py nccl

The first argument is the backend: nccl on GPUs, gloo on CPUs. Rank 0 prints a line for each size. A time is
the median of five all-reduces, of the slowest rank. The rate is what each of n ranks sends in a ring:
2 (n - 1) / n times the size, over that time.
"""

import os
import sys
import time
from statistics import median

import torch
import torch.distributed as dist

from thinwire.launch.placement import address_of, first_host

SIZES = tuple(2**power for power in (10, 15, 20, 25, 28))  # bytes
REPETITIONS = 5
PORT = 29_500


def seconds(size: int, device: torch.device) -> float:
    """The time of one all-reduce of so many bytes."""
    row = torch.zeros(size // 4, device=device)
    times = []
    for _ in range(1 + REPETITIONS):
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(row)
        row[0].item()  # waits for a GPU
        longest = torch.tensor([time.perf_counter() - began], device=device)
        dist.all_reduce(longest, op=dist.ReduceOp.MAX)
        times.append(longest.item())
    return median(times[1:])


def main() -> None:
    backend = sys.argv[1]
    rank, ranks = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    host = address_of(first_host(os.environ["SLURM_STEP_NODELIST"]))
    device = torch.device("cpu")
    if backend == "nccl":
        # Slurm may show each rank only its own GPU.
        device = torch.device("cuda", int(os.environ["SLURM_LOCALID"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    dist.init_process_group(backend, init_method=f"tcp://{host}:{PORT}", rank=rank, world_size=ranks)
    for size in SIZES:
        taken = seconds(size, device)
        rate = 2 * (ranks - 1) / ranks * size / taken
        if rank == 0:
            print(f"{size:>11,} bytes: {1000 * taken:9.3f} ms, {rate / 1e9:7.3f} GB/s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
