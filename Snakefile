# thinwire: from raw data to tables, figures, a page and a paper.
#   snakemake                             the demo
#   snakemake --config suites=laptop      another suite of config/, or a part of one; see docs/running.md
#   snakemake --config tune=demo          tune its methods; see docs/tuning.md
#   snakemake -n                          what would be run, and which records are there
#   snakemake --profile slurm --config suites=paper    on a cluster; see docs/cluster.md
# A run is made again if its options, its data or the files of its plug-ins change. A failure is a result.
import sys

sys.path.insert(0, workflow.basedir)

from thinwire import record
from thinwire.config.block import block_fingerprint
from thinwire.label import flat
from thinwire.pipeline import cores, job_grid, local_gpus, outputs, wildcard_patterns
from thinwire.pipeline import inputs, report_entries, simulation_inputs
from thinwire.pipeline.console import DISPLAY
from thinwire.pipeline.engine_command import engine_command
from thinwire.pipeline.slurm_preflight import require_ready
from thinwire.pipeline.command_line_choices import chosen
from thinwire.pipeline.dry_run_overview import print_overview
from thinwire.pipeline.exit_on_error import exit_on_error

with exit_on_error():
    CHOSEN = chosen(config)
    GRID = job_grid.read(CHOSEN.suites, workflow.is_main_process, CHOSEN.subset)
    if workflow.output_settings.dryrun:
        print_overview([*GRID.cells.values()], workflow)
local_gpus.limit(workflow, GRID)
THINWIRE = engine_command(workflow.deployment_settings)


PARTS = "wildcards slurm data prepare train simulate required_rate hsgd_ratio collect report claims page paper track tune"
for part in PARTS.split():

    include: f"workflow/rules/{part}.smk"


onstart:
    if workflow.executor_plugin.name == "slurm":
        with exit_on_error():
            require_ready(workflow.resource_settings.default_resources.args)
    DISPLAY.begin(GRID.trained_by(workflow.dag.needrun_jobs()), log)


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
