"""What a job depends on: files of plug-ins, and what methods have prepared.

A plug-in's file may change and keep its time, as with `cp -p` and `rsync -a`. So its digest is a parameter of
the job beside the file, which is an input.
"""

import json
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache
from pathlib import Path

from thinwire import plugins
from thinwire.base import digests, folders
from thinwire.base.errors import UserError
from thinwire.config import claims, suite
from thinwire.config.cell import Cell, plugin_digests, prepared_from, prepares, sources
from thinwire.config.yaml_file import Module
from thinwire.plugins import PACKAGE


def path_in_rules(path: Path) -> str:
    """A file of the project as rules name it: from the working folder if it is inside, and else absolute."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


@cache
def plugin_files(kind: str, name: str) -> list[str]:
    """The files of a plug-in: editing them makes its runs again, touching them does not."""
    return [path_in_rules(path) for path in plugins.get(kind, name).files]


# Computed once, although thousands of runs need them.
digests_of_plugin = cache(plugin_digests)


def plugin_digest(kind: str, name: str) -> str:
    """Changes when a file of the plug-in does, or one of the engine that it imports."""
    return digests.of_identity(digests_of_plugin(kind, name))


def dataset_options(dataset: Module) -> str:
    """Its options as `thinwire data --options` takes them."""
    return json.dumps(dataset.options, ensure_ascii=False)


@cache
def digest_of_code(*rooms: str) -> str:
    """Changes when a file of these folders of the engine does, from which jobs without records are made.

    Runs are not made again for a change of the engine, unless a plug-in imports what has changed.
    """
    files = sorted(path for room in rooms for path in (PACKAGE / room).rglob("*") if path.is_file())
    return digests.of_identity(
        [(str(path.relative_to(PACKAGE)), digests.of_file(path)) for path in files if path.suffix != ".pyc"]
    )


def files_with_claims() -> list[str]:
    """The files whose claims are in the table of claims, and the records of benchmarks that it quotes.

    Claims are in every suite, and in the list of those without a test.
    """
    printed = [claim.printed for claim in claims.read_untested() if claim.printed is not None]
    records = [record for each in printed if (record := each.newest_record()) is not None]
    return [path_in_rules(path) for path in (*suite.suite_files().values(), claims.UNTESTED, *records)]


def files_of_block(together: Sequence[Cell]) -> list[str]:
    """The files of the methods and of the model of a block, each once."""
    used = [each for cell in together for each in (("method", cell.method.use), ("model", cell.model.use))]
    return list(dict.fromkeys(path for kind, name in used for path in plugin_files(kind, name)))


def files_of_preparation(cell: Cell) -> list[str]:
    """The files of the method, of the cell's model, and of those that the preparation uses beside it."""
    others = [path for model in prepared_from(cell) for path in plugin_files("model", model.name)]
    return [*files_of_block([cell]), *others]


def laid_out(dataset: str) -> str:
    """The file that a data set has when it is laid out."""
    return f"results/data/{dataset}/manifest.json"


def require_data(
    datasets: Mapping[str, Module], place_of: Callable[[Module], str], planned: Container[str]
) -> None:
    """Require the files of the data sets, by label, that are planned and that thinwire cannot download.

    Without them, whatever is made of all records would be missing at the end. `place_of` gives the option for
    the folder that has a data set's files, or "": then a `UserError` says how to get them.
    """
    from thinwire.data.image_folder import ImageFolder  # and PIL, which jobs need not import

    for label, dataset in datasets.items():
        if laid_out(label) not in planned or place_of(dataset):
            continue
        kind = plugins.get("dataset", dataset.use).load()
        if issubclass(kind, ImageFolder):
            raise UserError(
                f"the data set {label} is missing. {kind.how_to_get}; put it into FOLDER/{label}, and write "
                f"`data: FOLDER` into {folders.SNAKEMAKE}, or leave out the suites that need it"
            )


def prepared_for_block(together: Sequence[Cell]) -> list[str]:
    """What the methods of a block have prepared, each once."""
    return list(
        dict.fromkeys(
            f"results/prepared/{cell.suite}/{cell.preparation}/prepared.json"
            for cell in together
            if prepares(cell.method.use)
        )
    )


def digest_of_block(together: Sequence[Cell]) -> str:
    """Changes when a file of a method, of the model or of the data set does."""
    return digests.of_identity([sources(cell, digests_of_plugin) for cell in together])


def digest_of_preparation(cell: Cell) -> str:
    """Changes when a file of the method, of one of its models or of the data set does."""
    others = [plugin_digest("model", model.name) for model in prepared_from(cell)]
    return digests.of_identity([sources(cell, digests_of_plugin), *others])
