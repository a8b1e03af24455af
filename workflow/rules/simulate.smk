# What is simulated.


# The times of all methods of a suite, on the clusters that its key `simulate` names.
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
        **asked.memory(
            CALL, lambda wildcards: SIMULATED[wildcards.suite].cells, one_process=True
        ),
        # Without it the plug-in for Slurm would start a step itself, and that loses SLURM_CONF.
        mpi="",
        cpus_per_task=1,
    params:
        only=lambda wildcards: GRID.option_of(wildcards.suite, CHOSEN.subset),
        # When an option of the suite or a number of a cluster changes, so does this.
        fingerprint=lambda wildcards: SIMULATED[wildcards.suite].fingerprint,
    shell:
        CALL.logged("simulate {wildcards.suite:q} {params.only:q}")


# The ratio between the ends of HSGD's ladder, over computing and links: without data.
rule hsgd_ratio:
    input:
        outputs.hsgd_ratio_sources(),
    output:
        outputs.entries(report, outputs.hsgd_ratio()),
    log:
        "results/logs/hsgd_ratio.txt",
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    shell:
        CALL.logged("hsgd_ratio")
