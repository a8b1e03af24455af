# thinwire: from raw data to tables and figures.
#
#   snakemake                             the demo
#   snakemake --config suites=laptop      another suite of config/ (several: suites=demo,laptop)
#   snakemake -n                          what would be run
#   snakemake --profile slurm --config suites=paper    on a cluster; see docs/cluster.md
#
# What is run depends on options, data and the files of plug-ins: change one and the runs that depend on it
# are made again, no others. A run that fails or diverges is a result, and stands in the tables.
import sys

sys.path.insert(0, workflow.basedir)

from thinwire import record
from thinwire.config.block import block_fingerprint
from thinwire.label import flat
from thinwire.launch.gpu_claims import gpus_of, gpus_of_preparation
from thinwire.pipeline import cores, inputs, job_grid, outputs, slurm_resources, wildcard_patterns
from thinwire.pipeline.console import DISPLAY
from thinwire.pipeline.engine_command import engine_command
from thinwire.pipeline.slurm_preflight import require_ready
from thinwire.pipeline.command_line_choices import chosen
from thinwire.pipeline.exit_on_error import exit_on_error
from thinwire.tracking.replay import NOTE

with exit_on_error():
    CHOSEN = chosen(config)
    GRID = job_grid.read(CHOSEN.suites, with_options=workflow.is_main_process)
# On this machine, no more jobs run at once than have GPUs; each job claims its own. Slurm has its own count.
if workflow.is_main_process and (gpus := GRID.gpus_here()):
    workflow.global_resources.setdefault("local_gpus", gpus)
THINWIRE = engine_command(workflow.deployment_settings)


resource_scopes:
    local_gpus="local",


for part in "wildcards data prepare train collect report track".split():

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
        "results/summary.csv",
        "results/curves.parquet",
        outputs.tables(*CHOSEN.suites),
        outputs.figures(*CHOSEN.suites),
        expand(f"results/wandb/{{project}}/{NOTE}", project=GRID.projects),
