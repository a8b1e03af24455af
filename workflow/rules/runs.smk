# From raw data to the records of runs.


# Data sets: fetched, verified and laid out once, shared by all cells. Those that are downloaded need the
# internet, so they are made where snakemake itself runs. Where the files are there already, a job decodes them,
# which may take all cores of a node for an hour.
for fetches in (True, False):

    rule:
        name:
            "data" if fetches else "data_from_files"
        input:
            GRID.of_dataset(lambda dataset: inputs.plugin_files("dataset", dataset.use)),
        output:
            inputs.laid_out("{dataset}"),
        log:
            "results/logs/data/{dataset}.txt",
        wildcard_constraints:
            dataset=snakefile.one_of(GRID.datasets_of_files(CHOSEN, not fetches)),
        localrule: fetches
        conda:
            "../../envs/thinwire.yaml"
        threads: workflow.cores
        resources:
            **asked.memory_of_a_process(CALL),
            **asked.without_step(CALL),
            # No param: that the files lie in another folder now is no reason to lay them out again.
            place=GRID.of_dataset(CHOSEN.place_of),
            cpus_per_task=asked.CORES_TO_DECODE,
        params:
            module=GRID.of_dataset(lambda dataset: dataset.use),
            options=GRID.of_dataset(inputs.dataset_options),
            # A plug-in's file may change and keep its time.
            source=GRID.of_dataset(
                lambda dataset: inputs.plugin_digest("dataset", dataset.use)
            ),
        shell:
            CALL.logged(
                "data {params.module:q} --label {wildcards.dataset:q} --options {params.options:q} {resources.place}"
            )


# What a method prepares before its runs, once for each model, data set and seed. One that fails is
# recorded, so that the cells that need it can say why they failed.
for shape in GRID.shapes_of_preparations:

    rule:
        name:
            f"prepare_{shape.name}"
        input:
            data=GRID.of_preparation(lambda cell: inputs.laid_out(cell.dataset)),
            sources=GRID.of_preparation(inputs.files_of_preparation),
        output:
            "results/prepared/{suite}/{preparation}/prepared.json",
        log:
            "results/logs/prepare/{suite}/{preparation}.txt",
        wildcard_constraints:
            suite=snakefile.one_of([shape.suite]),
            preparation=snakefile.preparation(shape.dataset),
        conda:
            "../../envs/thinwire.yaml"
        threads: asked.cores_of_preparation(shape.cells[0], CALL.cores)
        resources:
            **asked.memory(CALL, shape.cells, one_process=True),
            **asked.without_step(CALL),
            step=asked.step_of_one_task(CALL),
            cpus_per_task=asked.cpus_per_rank(shape.cells[0]),
            # On a cluster: all workers are on one GPU.
            gres=asked.gres(CALL, gpus_of_preparation(shape.cells[0])),
            local_gpus=gpus_of_preparation(shape.cells[0]),
            slurm_extra=asked.SIGNAL,
        params:
            # When an option changes, so does this, and it is prepared again.
            fingerprint=GRID.of_preparation(lambda cell: cell.preparation_fingerprint),
            # A plug-in's file may change and keep its time.
            sources=GRID.of_preparation(inputs.digest_of_preparation),
        shell:
            # 1: the preparation failed, and its record says why.
            asked.IN_STEP
            + CALL.thinwire(
                "prepare {wildcards.suite:q} {wildcards.preparation:q} --fingerprint {params.fingerprint} > {log:q} 2>&1"
                " || {{ code=$?; [ $code = 1 ] && [ -e {output:q} ] || {{ cat {log:q} >&2; exit $code; }}; }}"
            )


# The runs of all methods in one cell of the grid: a rule for each size of blocks, whose jobs ask for the same nodes.
# A run that is finished already is not trained again. There is no `benchmark:`, because Snakemake would look at the
# processes of a block again and again, which disturbs its times; each record has the seconds of its run.
for shape in GRID.shapes:

    rule:
        name:
            f"train_{shape.name}"
        input:
            data=inputs.laid_out("{dataset}"),
            sources=GRID.of_block(shape.suite, inputs.files_of_block),
            prepared=GRID.prepared_for(
                shape, lambda tuned: checkpoints.finalists.get(tuned=tuned)
            ),
            finalists=shape.finalists,
        output:
            GRID.made_by(shape),
        log:
            f"results/logs/train/{shape.suite}/{{dataset}}/{{model}}/{{size}}/{{seed}}.txt",
        wildcard_constraints:
            dataset=snakefile.one_of([shape.dataset]),
            size=shape.size,
        conda:
            "../../envs/thinwire.yaml"
        # Of one machine; on a cluster each rank has `cpus_per_task`.
        threads:
            GRID.of_block(
                shape.suite,
                lambda block: asked.cores_of_block(
                    block, len(GRID.blocks), CALL.cores
                ),
            )
        resources:
            **asked.memory(CALL, shape.cells),
            # The command runs once, on the first node, and starts several ranks on all nodes by itself.
            **asked.without_step(CALL, asked.launcher(shape.cells[0])),
            step=asked.step(CALL, shape.cells[0]),
            nodes=asked.nodes(shape.cells[0]),
            tasks=asked.ranks(shape.cells[0]),
            cpus_per_task=asked.cpus_per_rank(shape.cells[0]),
            # GPUs for each node; the tasks are counted above.
            gres=asked.gres(CALL, gpus_of(shape.cells[0])),
            local_gpus=gpus_of(shape.cells[0]),
            tasks_per_gpu=0,
            # Runs at the same time.
            runs_at_once=GRID.of_block(
                shape.suite,
                lambda block: asked.runs_at_once(block, len(GRID.blocks), CALL.cores),
            ),
            slurm_extra=asked.more_options(CALL, shape.cells[0]),
        params:
            suite=shape.suite,
            only=GRID.option_of(shape.suite, CHOSEN.subset.of_methods()),
            # When an option changes, so does this, and the block is made again.
            fingerprint=GRID.of_block(shape.suite, block_fingerprint),
            # A plug-in's file may change and keep its time.
            sources=GRID.of_block(shape.suite, inputs.digest_of_block),
        shell:
            asked.IN_STEP
            + CALL.thinwire(
                "train {params.suite:q} {wildcards.dataset:q}/{wildcards.model:q}/{wildcards.size}/{wildcards.seed}"
                " {params.only:q} --fingerprint {params.fingerprint} --jobs {resources.runs_at_once} >> {log:q} 2>&1"
                # 130: a person pressed Ctrl-C, and needs no log.
                " || {{ code=$?; [ $code = 130 ] || {{ tail -n 30 {log:q}; echo log: {log:q}; }} >&2; exit $code; }}"
            )
            + ("; touch {output:q}" if shape.finalists else "")
