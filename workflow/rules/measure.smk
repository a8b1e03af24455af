# The runs of all methods in one cell of the grid, one after the other in one allocation: a rule for each suite,
# because its methods are part of what the rule makes.
for measured in GRID.measured:

    rule:
        name:
            f"measure_{flat(measured)}"
        input:
            data="results/data/{dataset}/manifest.json",
            sources=GRID.of_block(measured, inputs.files_of_block),
            prepared=GRID.of_block(measured, inputs.prepared_for_block),
        output:
            expand(
                "results/runs/{suite}/{{dataset}}/{{model}}/{method}/{{size}}/{{seed}}/{file}",
                suite=measured,
                method=GRID.methods_of(measured),
                file=[record.RUN, record.CURVE, record.TRAFFIC],
            ),
        log:
            f"results/logs/measure/{measured}/{{dataset}}/{{model}}/{{size}}/{{seed}}.txt",
        conda:
            "../../envs/thinwire.yaml"
        # Of one machine; on a cluster each rank has `cpus_per_task`.
        threads: GRID.of_first(measured, lambda cell: cell.workers)
        resources:
            # The command runs once, on the first node, and starts the ranks on all of them by itself.
            mpi=GRID.of_first(measured, slurm_resources.launcher),
            nodes=GRID.of_first(measured, slurm_resources.nodes),
            tasks=GRID.of_first(measured, slurm_resources.ranks),
            cpus_per_task=GRID.of_first(measured, slurm_resources.cpus_per_rank),
            # GPUs for each node; the tasks are counted above.
            gres=GRID.of_first(measured, slurm_resources.gpus),
            local_gpus=GRID.of_first(measured, gpus_of),
            tasks_per_gpu=0,
            slurm_extra=GRID.of_first(measured, slurm_resources.more_options),
        params:
            thinwire=THINWIRE,
            suite=measured,
            # When an option changes, so does this, and the block is made again.
            fingerprint=GRID.of_block(measured, block_fingerprint),
            # A plug-in's file may change and keep its time.
            sources=GRID.of_block(measured, inputs.digest_of_block),
        shell:
            "SRUN_CPUS_PER_TASK={resources.cpus_per_task}"
            " {params.thinwire} measure {params.suite:q} {wildcards.dataset:q}/{wildcards.model:q}/{wildcards.size}/{wildcards.seed}"
            " --fingerprint {params.fingerprint} >> {log:q} 2>&1"
            " || {{ code=$?; tail -n 30 {log:q} >&2; exit $code; }}"
