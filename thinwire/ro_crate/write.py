"""Writes `ro-crate-metadata.json` from the records; the same records give the same bytes."""

import json
from collections import defaultdict
from pathlib import Path

from thinwire import record
from thinwire.errors import UserError
from thinwire.files import write_text
from thinwire.ro_crate import actions, parts, workflow
from thinwire.ro_crate.entities import CONTEXT, METADATA, Entity, file_entity
from thinwire.ro_crate.head import head
from thinwire.ro_crate.software import Software
from thinwire.train.preparation_record import PREPARED, read_sound
from thinwire.train.result_folders import folders_of_records

_AGAIN = "start the pipeline again"


def write(crate: Path) -> Path:
    """Describe a folder of results, and return the path of the description.

    Raises:
        UserError: there is no record, or one is damaged.
    """
    software = Software()
    runs: dict[str, list[Entity]] = defaultdict(list)
    folders: dict[str, list[Path]] = defaultdict(list)
    for folder in folders_of_records(crate):
        run = record.read(folder / record.RUN, _AGAIN)
        suite = run.cell["suite"]
        folders[suite].append(folder)
        runs[suite].append(actions.of_run(folder, run, crate, workflow.config_of(suite, crate), software))
    if not runs:
        raise UserError(f"there is no record under {crate}: run the pipeline first, or name its results")
    paths = sorted((crate / "prepared").rglob(PREPARED))
    prepared = [(path, read_sound(path.parent, _AGAIN)) for path in paths]
    preparations = [actions.of_preparation(path, made, crate, software) for path, made in prepared]
    flow = workflow.entities(workflow.copy_files(crate, runs), crate, software.engines)
    files = [file_entity(path, crate, "record of a preparation") for path in paths]
    collected = parts.collected(crate)
    files += [*parts.data_sets(crate), *collected]
    suites = []
    for suite, own in runs.items():
        made = parts.made_of_suite(suite, crate)
        config = workflow.config_of(suite, crate)
        ids = [entity["@id"] for entity in [*collected, *made]]
        suites.append(actions.of_suite(suite, own, workflow.main(crate), config, ids))
        files += made
    run_files = parts.run_files(folders, crate)
    done = [*suites, *preparations, *(run for own in runs.values() for run in own)]
    of_root = [e for e in [*flow, *files] if "File" in e["@type"]]
    of_root += [e for e in run_files if e["@type"] == "Dataset"]
    published = max((suite["endTime"] for suite in suites if "endTime" in suite), default="1970-01-01")
    first = head(runs, published, [e["@id"] for e in of_root], [e["@id"] for e in done], workflow.main(crate))
    return _write(crate, [*first, *flow, *software.entities, *files, *run_files, *done])


def _write(crate: Path, graph: list[Entity]) -> Path:
    """One entity a line: small, and easy to compare."""
    lines = ",\n".join(json.dumps(entity, ensure_ascii=False, separators=(",", ":")) for entity in graph)
    path = crate / METADATA
    write_text(path, f'{{"@context":{json.dumps(CONTEXT)},\n"@graph":[\n{lines}\n]}}\n')
    return path
