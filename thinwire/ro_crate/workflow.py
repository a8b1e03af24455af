"""The workflow itself: the pipeline's files and the suites, copied so that the crate is whole."""

from collections.abc import Iterable
from pathlib import Path

from thinwire import __version__
from thinwire.config.suite import path_of
from thinwire.errors import UserError
from thinwire.files import write_text
from thinwire.label import require_suite_name
from thinwire.plugins import ROOT
from thinwire.ro_crate.entities import Entity, file_entity, path_id, ref, refs

COPIES = "workflow"
_LANGUAGE, _STEP, _SUITES = "#snakemake", "#step-train", "#parameter-suites"


def copy_files(crate: Path, suites: Iterable[str]) -> list[Path]:
    """Copy the Snakefile, its rules and the files of suites into the crate.

    Returns:
        The copies, the Snakefile first. A suite whose file is no longer there has none.

    Raises:
        UserError: there is no Snakefile.
    """
    if not (ROOT / "Snakefile").is_file():
        raise UserError(f"{ROOT / 'Snakefile'} is missing: start thinwire crate in a clone of the repository")
    files = [ROOT / "Snakefile", *sorted((ROOT / "workflow" / "rules").glob("*.smk"))]
    files += [file for file in map(_file_of, sorted(suites)) if file is not None]
    copies = []
    for file in files:
        copy = crate / COPIES / file.relative_to(ROOT)
        write_text(copy, file.read_text(encoding="utf-8"))
        copies.append(copy)
    return copies


def main(crate: Path) -> str:
    """The identifier of the copied Snakefile."""
    return path_id(crate / COPIES / "Snakefile", crate)


def config_of(suite: str, crate: Path) -> list[str]:
    """The identifier of the copied file of a suite, if there is one."""
    file = _file_of(suite)
    return [] if file is None else [path_id(crate / COPIES / file.relative_to(ROOT), crate)]


def entities(copies: list[Path], crate: Path, engines: list[str]) -> list[Entity]:
    """The workflow, which is the first one, its only step that is recorded, and its files.

    Args:
        copies: what `copy_files` gave.
        crate: the folder of results.
        engines: the identifiers of the states of the engine that have run.
    """
    snakefile, *others = copies
    files = [file_entity(copy, crate, copy.name) for copy in others]
    configs = [entity for entity in files if entity["@id"].endswith(".yaml")]
    for entity in configs:
        entity["exampleOfWork"] = ref(_SUITES)
    workflow = file_entity(snakefile, crate, "thinwire: from raw data to tables and figures") | {
        "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
        "conformsTo": ref("https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"),
        "version": __version__,
        "programmingLanguage": ref(_LANGUAGE),
        "input": refs([_SUITES]),
        "hasPart": refs(engines),
        "step": ref(_STEP),
    }
    return [
        workflow,
        {
            "@id": _LANGUAGE,
            "@type": "ComputerLanguage",
            "name": "Snakemake",
            "url": "https://snakemake.github.io",
        },
        {
            "@id": _STEP,
            "@type": "HowToStep",
            "name": "train",
            "description": "Trains all methods of a block, and prepares those that need it.",
            "workExample": refs(engines),
        },
        {
            "@id": _SUITES,
            "@type": "FormalParameter",
            "conformsTo": ref("https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"),
            "additionalType": "File",
            "name": "suites",
            "workExample": refs(entity["@id"] for entity in configs),
        },
        *files,
    ]


def _file_of(suite: str) -> Path | None:
    """The file of a suite or of a tuning, if it is still there."""
    file = path_of(require_suite_name(suite))
    return file if file.is_file() else None
