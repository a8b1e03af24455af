"""`thinwire data DATASET`."""

from argparse import Namespace

from thinwire import plugins
from thinwire.data.arrays import lay_out
from thinwire.errors import UserError
from thinwire.train.places import data_folder


def main(arguments: Namespace) -> int:
    """Fetch, verify and lay out one data set."""
    if arguments.place is not None and not arguments.place.is_dir():
        raise UserError(f"--from {arguments.place}: there is no such folder")
    dataset = plugins.get("dataset", arguments.dataset).load()()
    folder = data_folder(arguments.results, arguments.dataset)
    download = arguments.results / "download" / arguments.dataset
    lay_out(arguments.dataset, dataset, folder, arguments.place, download)
    print(f"{arguments.dataset} is in {folder}")
    return 0
