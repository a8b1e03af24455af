# The simulated times of all methods of a suite, on the clusters that its key `simulate` names.
SIMULATED = simulation_inputs.simulations(GRID)


rule simulate:
    input:
        data=lambda wildcards: SIMULATED[wildcards.suite].data,
        sources=lambda wildcards: SIMULATED[wildcards.suite].sources,
        prepared=lambda wildcards: SIMULATED[wildcards.suite].prepared,
        described=lambda wildcards: SIMULATED[wildcards.suite].described,
    output:
        outputs.times("{suite}"),
    log:
        "results/logs/simulate/{suite}.txt",
    conda:
        "../../envs/thinwire.yaml"
    # It measures how fast a core of this machine computes, so nothing else computes beside it.
    threads: workflow.cores
    resources:
        **job_memory.resource(
            workflow,
            lambda wildcards: SIMULATED[wildcards.suite].cells,
            one_process=True,
        ),
        # Without it the plug-in for Slurm would start a step itself, and that loses SLURM_CONF.
        mpi="",
        cpus_per_task=1,
    params:
        thinwire=THINWIRE,
        only=lambda wildcards: GRID.option_of(wildcards.suite, CHOSEN.subset),
        # When an option of the suite or a number of a cluster changes, so does this.
        fingerprint=lambda wildcards: SIMULATED[wildcards.suite].fingerprint,
    shell:
        "{params.thinwire} simulate {wildcards.suite:q} {params.only:q} > {log:q} 2>&1 || {{ cat {log:q} >&2; exit 1; }}"
