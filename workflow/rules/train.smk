# The runs of all methods in one cell of the grid: a rule for each suite, because its methods are part of what
# the rule makes. A run that was made before is taken from results/store.
for suite in GRID.suites:

    rule:
        name:
            f"train_{flat(suite)}"
        input:
            data="results/data/{dataset}/manifest.json",
            sources=GRID.of_block(suite, inputs.files_of_block),
            prepared=GRID.of_block(suite, inputs.prepared_for_block),
        output:
            expand(
                "results/runs/{suite}/{{dataset}}/{{model}}/{method}/{{size}}/{{seed}}/{file}",
                suite=suite,
                method=GRID.methods_of(suite),
                file=[record.RUN, record.CURVE, record.TRAFFIC],
            ),
        log:
            f"results/logs/train/{suite}/{{dataset}}/{{model}}/{{size}}/{{seed}}.txt",
        conda:
            "../../envs/thinwire.yaml"
        # Of one machine; on a cluster each rank has `cpus_per_task`.
        threads:
            GRID.of_block(
                suite,
                lambda block: cores.of_block(block, len(GRID.blocks), workflow.cores),
            )
        resources:
            **job_memory.resource(workflow, GRID.of_block(suite, list)),
            # The command runs once, on the first node, and starts several ranks on all nodes by itself.
            mpi=GRID.of_first(suite, slurm_resources.launcher),
            step=GRID.of_first(suite, slurm_resources.step(workflow)),
            nodes=GRID.of_first(suite, slurm_resources.nodes),
            tasks=GRID.of_first(suite, slurm_resources.ranks),
            cpus_per_task=GRID.of_first(suite, slurm_resources.cpus_per_rank),
            # GPUs for each node; the tasks are counted above.
            gres=GRID.of_first(
                suite, slurm_resources.gres(workflow, local_gpus.of_cell)
            ),
            local_gpus=GRID.of_first(suite, local_gpus.of_cell),
            tasks_per_gpu=0,
            # Runs at the same time.
            runs_at_once=GRID.of_block(
                suite,
                lambda block: cores.runs_at_once(
                    block, len(GRID.blocks), workflow.cores
                ),
            ),
            slurm_extra=GRID.of_first(suite, slurm_resources.more_options),
        params:
            thinwire=THINWIRE,
            suite=suite,
            only=GRID.option_of(suite, CHOSEN.subset.of_methods()),
            # When an option changes, so does this, and the block is made again.
            fingerprint=GRID.of_block(suite, block_fingerprint),
            # A plug-in's file may change and keep its time.
            sources=GRID.of_block(suite, inputs.digest_of_block),
        shell:
            "SRUN_CPUS_PER_TASK={resources.cpus_per_task}"
            " {resources.step} {params.thinwire} train {params.suite:q} {wildcards.dataset:q}/{wildcards.model:q}/{wildcards.size}/{wildcards.seed}"
            " {params.only:q} --fingerprint {params.fingerprint} --jobs {resources.runs_at_once} >> {log:q} 2>&1"
            # 130: a person pressed Ctrl-C, and needs no log.
            " || {{ code=$?; [ $code = 130 ] || {{ tail -n 30 {log:q}; echo log: {log:q}; }} >&2; exit $code; }}"
