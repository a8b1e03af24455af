# One run, all of its workers in one process.
rule train:
    input:
        data=GRID.of_cell(inputs.manifest),
        method=GRID.of_cell(inputs.method_files),
        model=GRID.of_cell(inputs.model_files),
        prepared=GRID.of_cell(inputs.prepared),
    output:
        run=f"results/runs/{{suite}}/{{cell}}/{record.RUN}",
        curve=f"results/runs/{{suite}}/{{cell}}/{record.CURVE}",
        traffic=f"results/runs/{{suite}}/{{cell}}/{record.TRAFFIC}",
    log:
        "results/logs/train/{suite}/{cell}.txt",
    wildcard_constraints:
        suite=patterns.one_of(GRID.trained),
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    resources:
        # On a cluster: all workers are on one GPU.
        gres=GRID.of_cell(slurm_resources.gpus),
        local_gpus=GRID.of_cell(gpus_of),
    params:
        thinwire=THINWIRE,
        # When an option changes, so does this, and the run is made again.
        fingerprint=GRID.of_cell(lambda cell: cell.fingerprint),
        # A plug-in's file may change and keep its time.
        sources=GRID.of_cell(inputs.digest_of_run),
    shell:
        # 1: the run failed, and its record says why.
        "{params.thinwire} run {wildcards.suite:q} {wildcards.cell:q} --fingerprint {params.fingerprint} > {log:q} 2>&1"
        " || {{ code=$?; [ $code = 1 ] && [ -e {output.run:q} ] || {{ cat {log:q} >&2; exit $code; }}; }}"
