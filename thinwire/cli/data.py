"""`thinwire data DATASET`."""

from argparse import Namespace

from thinwire import plugins
from thinwire.config import yaml_file
from thinwire.data.lay_out import lay_out
from thinwire.errors import UserError, quoted
from thinwire.files import locked
from thinwire.label import require_label
from thinwire.options import resolve
from thinwire.train.result_folders import data_folder


def main(arguments: Namespace) -> int:
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
