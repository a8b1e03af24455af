"""`thinwire data` and `prepare`: what is made before a run begins."""

import sys
from argparse import Namespace

from thinwire import plugins
from thinwire.base.errors import UserError, quoted
from thinwire.base.files import locked
from thinwire.base.names import require_label
from thinwire.base.options import resolve
from thinwire.config import yaml_file
from thinwire.config.expand import preparation, require_as_planned, require_valid
from thinwire.config.suite import load
from thinwire.data.dataset import lay_out
from thinwire.launch.placement import gpus_claimed, gpus_of_preparation
from thinwire.train.result_files import data_folder, prepare_command, prepared_folder


def prepare_main(arguments: Namespace) -> int:
    """Let a method prepare, and publish what it made."""
    from thinwire.launch import local_processes  # torch, which laying out data does not need
    from thinwire.train.run_cell import Interrupted

    require_valid(arguments.suite)
    cell = preparation(arguments.suite, arguments.preparation)
    require_as_planned(cell, arguments.fingerprint, cell.preparation_fingerprint)
    # A method may change the working directory.
    results = arguments.results.absolute()
    try:
        with gpus_claimed(gpus_of_preparation(cell)):
            every = load(arguments.suite).checkpoint_every_seconds
            made = local_processes.run_preparation(cell, results, every)
    except Interrupted as error:
        print(f"{error}; {prepare_command(cell, results)} goes on from here", file=sys.stderr)
        return 128 + error.number
    print(made.status if made.reason is None else f"{made.status}: {made.reason}")
    print(prepared_folder(results, cell))
    return int(made.status == "failed")


def data_main(arguments: Namespace) -> int:
    """Fetch, verify and lay out one data set."""
    if arguments.place is not None and not arguments.place.is_dir():
        raise UserError(f"--from {arguments.place}: there is no such folder")
    label = arguments.label or arguments.dataset
    require_label(label)
    dataset = plugins.get("dataset", arguments.dataset).load()
    folder = data_folder(arguments.results, label)
    download = arguments.results / "download" / label
    made = dataset(resolve(dataset, _options(arguments.options)))
    with locked(download.with_name(f"{label}.lock"), f"the data set {label}"):
        lay_out(label, made, folder, arguments.place, download)
    print(f"{label} is in {folder}")
    return 0


def _options(text: str) -> dict[str, object]:
    """Read the options from JSON, as those in a suite."""
    options = yaml_file.parse(text, "--options")
    if not isinstance(options, dict) or not all(isinstance(name, str) for name in options):
        raise UserError(f"--options {quoted(text)}: options are a mapping, as in '{{\"size\": 64}}'")
    return options
