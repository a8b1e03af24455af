# What a method prepares before its runs, once for each model, data set and seed. One that fails is
# recorded, so that the cells that need it can say why they failed.
rule prepare:
    input:
        data=GRID.of_preparation(inputs.manifest),
        method=GRID.of_preparation(inputs.method_files),
        model=GRID.of_preparation(inputs.model_files),
        models=GRID.of_preparation(inputs.files_of_other_models),
    output:
        "results/prepared/{suite}/{preparation}/prepared.json",
    log:
        "results/logs/prepare/{suite}/{preparation}.txt",
    conda:
        "../../envs/thinwire.yaml"
    threads: GRID.of_preparation(lambda cell: cores.of_preparation(cell, workflow.cores))
    resources:
        **job_memory.resource(
            workflow, GRID.of_preparation(lambda cell: [cell]), one_process=True
        ),
        # Without `mpi` the plug-in for Slurm would start a step itself, and that loses SLURM_CONF.
        mpi="",
        step=slurm_resources.step_of_one_task(workflow),
        # On a cluster: all workers are on one GPU.
        gres=GRID.of_preparation(
            slurm_resources.gres(workflow, local_gpus.of_preparation)
        ),
        local_gpus=GRID.of_preparation(local_gpus.of_preparation),
        slurm_extra=slurm_resources.SIGNAL,
    params:
        thinwire=THINWIRE,
        # When an option changes, so does this, and it is prepared again.
        fingerprint=GRID.of_preparation(lambda cell: cell.preparation_key.fingerprint),
        # A plug-in's file may change and keep its time.
        sources=GRID.of_preparation(inputs.digest_of_preparation),
    shell:
        # 1: the preparation failed, and its record says why.
        "{resources.step} {params.thinwire} prepare {wildcards.suite:q} {wildcards.preparation:q} --fingerprint {params.fingerprint} > {log:q} 2>&1"
        " || {{ code=$?; [ $code = 1 ] && [ -e {output:q} ] || {{ cat {log:q} >&2; exit $code; }}; }}"
