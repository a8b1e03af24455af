"""What `thinwire plan` asks: the network, the cluster, the link and the device."""

import argparse


def add_questions(plan: argparse.ArgumentParser) -> None:
    """Add the options of the command to its parser."""
    network = plan.add_mutually_exclusive_group(required=True)
    network.add_argument("--model", metavar="NAME", help="resnet18 or gpt_124m, for instance")
    network.add_argument(
        "--parameters", type=int, metavar="N", help="a GPT with about N weights stands for your network"
    )
    plan.add_argument("--workers", type=int, required=True, metavar="W", help="all together")
    plan.add_argument("--per-node", type=int, default=1, metavar="N", help="workers of a node; default: 1")
    link = plan.add_mutually_exclusive_group(required=True)
    link.add_argument("--rate", type=float, metavar="GBIT", help="Gbit/s of a node's link")
    link.add_argument(
        "--probe",
        metavar="TOKEN@HOST",
        help="measure rate and latency to where `python -m thinwire.simulation.probe` has printed this",
    )
    plan.add_argument(
        "--latency",
        type=float,
        metavar="MS",
        help="milliseconds, one way; default: what --probe finds, or 0.005",
    )
    plan.add_argument(
        "--accelerator",
        default="a100_bf16",
        metavar="NAME",
        help="a file in config/accelerators/, without .yaml; default: a100_bf16",
    )
    plan.add_argument(
        "--step-seconds",
        type=float,
        metavar="S",
        help="that both passes of a step take; default: as on the accelerator",
    )
    plan.add_argument("--json", action="store_true", help="print the numbers as JSON")
