# The grid: every cell of the chosen suites, by the path of its record.
def grid():
    """Read the suites; bad input ends here, with one message."""
    try:
        if workflow.is_main_process:
            for suite in SUITES:
                require_valid(suite)
        return {
            f"{cell.suite}/{cell.path}": cell
            for suite in SUITES
            for cell in cells(suite)
        }
    except UserError as error:
        sys.exit(f"thinwire: {error}")


CELLS = grid()
# One cell for each preparation: they share it.
PREPARATIONS = {f"{cell.suite}/{cell.preparation}": cell for cell in CELLS.values()}
# Data sets by label.
DATASETS = {cell.dataset: cell.data for cell in CELLS.values()}
for cell in CELLS.values():
    if cell.data != DATASETS[cell.dataset]:
        sys.exit(
            f"thinwire: two suites mean different things by the data set {cell.dataset}: give one another label"
        )
# Suites by the name that they have in W&B.
PROJECTS = {project_of(suite): suite for suite in SUITES}
FIGURES = ["accuracy_over_epochs", "accuracy_against_bytes"]


wildcard_constraints:
    suite="|".join(SUITES),
    cell=r"[^/]+/[^/]+/[^/]+/w\d+(n\d+)?/seed\d+",
    preparation=r"[^/]+/[^/]+/[^/]+/seed\d+",
    dataset=r"[^/]+",
    project=r"[^/]+",


def cell_of(wildcards):
    return CELLS[f"{wildcards.suite}/{wildcards.cell}"]


def preparation_of(wildcards):
    return PREPARATIONS[f"{wildcards.suite}/{wildcards.preparation}"]


def prepared(cell):
    """What the method of this cell has prepared, if it prepares anything."""
    if not prepares(cell):
        return []
    return f"results/prepared/{cell.suite}/{cell.preparation}/prepared.json"


def place_of(dataset):
    """The folder of the user's for this data set, if there is one: PARENT/label, or PARENT/module."""
    names = (dataset, DATASETS[dataset].use) if DATA else ()
    for folder in (Path(DATA) / name for name in names):
        if folder.is_dir():
            return f"--from {shlex.quote(str(folder))}"
    return ""


def source(kind, name):
    """The files of a plug-in: editing them makes its runs again, touching them does not."""
    return [plugins.show(path) for path in plugins.get(kind, name).files]


def records(name):
    """One file of every record, in the order of the grid."""
    return [f"results/runs/{path}/{name}" for path in CELLS]
