# thinwire: from raw data to tables, figures, a page and a paper.
#   snakemake                             the demo
#   snakemake --config suites=laptop      another suite of config/, or a part of one; see docs/running.md
#   snakemake --config tune=demo          tune its methods; see docs/tuning.md
#   snakemake -n                          what would be run, and which records are there
#   snakemake --profile slurm --config suites=paper    on a cluster; see docs/cluster.md
# A run is made again if its options, its data or the files of its plug-ins change. A failure is a result.
import sys

sys.path.insert(0, workflow.basedir)

from thinwire.base.names import flat
from thinwire.config.expand import block_fingerprint
from thinwire.launch.gpu_claims import gpus_of, gpus_of_preparation
from thinwire.pipeline import grid, inputs, outputs, snakefile
from thinwire.pipeline import resources as asked
from thinwire.pipeline.console import DISPLAY
from thinwire.pipeline.overview import print_overview
from thinwire.records import record

asked.hand_on_conf()
with snakefile.exit_on_error():
    CALL = snakefile.called(workflow)
    CHOSEN = grid.chosen(config)
    GRID = grid.read(CHOSEN.suites, CALL.plans, CHOSEN.subset)
    if CALL.dry:
        print_overview([*GRID.cells.values()], CALL.defaults)
    # Each job with GPUs claims its own when it begins. Slurm counts GPUs by itself.
    if CALL.plans and (gpus := GRID.gpus_here()):
        snakefile.limit(workflow, "local_gpus", gpus)
SIMULATED = outputs.simulations(GRID)


# GPUs are counted for each machine.
resource_scopes:
    local_gpus="local",


# The names of suites come from the command line, the others from the paths of records.
wildcard_constraints:
    suite=snakefile.one_of(CHOSEN.suites),
    tuned=snakefile.one_of(CHOSEN.tuned),
    preparation=snakefile.PREPARATION,
    dataset=snakefile.ANY,
    model=snakefile.ANY,
    size=snakefile.SIZE,
    seed=snakefile.SEED,
    project=snakefile.ANY,


include: "workflow/rules/runs.smk"
include: "workflow/rules/simulate.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/tune.smk"


onstart:
    if snakefile.sends_to_slurm(workflow):
        with snakefile.exit_on_error():
            asked.require_ready(CALL.defaults)
    DISPLAY.begin(GRID.trained_by(snakefile.planned(workflow)), log)


onsuccess:
    DISPLAY.end()


onerror:
    DISPLAY.end()


rule all:
    default_target: True
    input:
        # Asked for by themselves, so that one that was deleted is made again.
        GRID.records(record.RUN),
        outputs.made_from_records(CHOSEN, GRID, SIMULATED),
