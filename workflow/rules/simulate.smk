# What is simulated.


# The times of all methods of a suite, on the clusters that its key `simulate` names.
for suite, simulation in SIMULATED.items():

    rule:
        name:
            f"simulate_{flat(suite)}"
        input:
            data=simulation.data,
            sources=simulation.sources,
            prepared=simulation.prepared,
            described=simulation.described,
        output:
            outputs.times("{suite}"),
        log:
            "results/logs/simulate/{suite}.txt",
        wildcard_constraints:
            suite=snakefile.one_of([suite]),
        conda:
            "../../envs/thinwire.yaml"
        # It measures how fast a core of this machine computes, so nothing else computes beside it.
        threads: workflow.cores
        resources:
            **asked.memory(CALL, simulation.cells, one_process=True),
            **asked.without_step(CALL),
            cpus_per_task=1,
        params:
            only=GRID.option_of(suite, CHOSEN.subset),
            # When an option of the suite or a number of a cluster changes, so does this.
            fingerprint=simulation.fingerprint,
            code=inputs.digest_of_code("simulation", "traffic", "transport"),
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
    resources:
        **asked.memory_of_a_process(CALL),
        **asked.without_step(CALL),
        cpus_per_task=1,
    params:
        code=inputs.digest_of_code("simulation", "traffic", "transport"),
    shell:
        CALL.logged("hsgd_ratio")
