"""Writes `ro-crate-metadata.json` from the records; the same records give the same bytes."""

import json
from collections import defaultdict
from pathlib import Path

from thinwire import digests, record
from thinwire.errors import UserError
from thinwire.files import write_text
from thinwire.report.result_names import COLLECTED
from thinwire.ro_crate import actions, parts, workflow
from thinwire.ro_crate.entities import CONTEXT, METADATA, Entity, file_entity
from thinwire.ro_crate.head import head
from thinwire.ro_crate.software import Software
from thinwire.train.preparation_record import read_sound

_AGAIN = "start the pipeline again"


def write(crate: Path) -> Path:
    """Describe the collected runs in a folder of results, and return the path of the description.

    Raises:
        UserError: nothing was collected, or a record is damaged.
    """
    software = Software()
    runs: dict[str, list[Entity]] = defaultdict(list)
    folders: dict[str, list[Path]] = defaultdict(list)
    labels, paths = set(), set()
    for folder in _collected_folders(crate):
        run = record.read(folder / record.RUN, _AGAIN)
        suite = run.cell["suite"]
        folders[suite].append(folder)
        runs[suite].append(actions.of_run(folder, run, crate, workflow.config_of(suite, crate), software))
        labels.add(run.cell["data"]["label"])
        paths.add(actions.prepared_of(run, crate))
    prepared = [(path, read_sound(path.parent, _AGAIN)) for path in sorted(filter(None, paths))]
    preparations = [actions.of_preparation(path, made, crate, software) for path, made in prepared]
    flow = workflow.entities(workflow.copy_files(crate, runs), crate, software.engines)
    files = [file_entity(path, crate, "record of a preparation") for path, _ in prepared]
    collected = parts.collected(crate)
    files += [*parts.data_sets(labels, crate), *collected]
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


def _collected_folders(crate: Path) -> list[Path]:
    """The folders of the records from which `summary.csv` was collected, in its order."""
    try:
        content = digests.read_json(crate / COLLECTED)
        digests.require_files(crate, content.get("files", {}))
    except digests.Damaged as error:
        raise UserError(
            f"{error}: collect the records first, with the pipeline or `thinwire collect`"
        ) from None
    if not (listed := content.get("records")):
        raise UserError(f"{crate / COLLECTED} lists no records: {_AGAIN}")
    return [(crate / name).parent for name in listed]


def _write(crate: Path, graph: list[Entity]) -> Path:
    """One entity a line: small, and easy to compare."""
    lines = ",\n".join(json.dumps(entity, ensure_ascii=False, separators=(",", ":")) for entity in graph)
    path = crate / METADATA
    write_text(path, f'{{"@context":{json.dumps(CONTEXT)},\n"@graph":[\n{lines}\n]}}\n')
    return path
