# Data sets: fetched, verified and laid out once, shared by all cells.
rule data:
    input:
        GRID.of_dataset(inputs.dataset_files),
    output:
        "results/data/{dataset}/manifest.json",
    log:
        "results/logs/data/{dataset}.txt",
    # It takes seconds or needs the internet, so it runs where snakemake itself runs.
    localrule: True
    conda:
        "../../envs/thinwire.yaml"
    threads: workflow.cores
    resources:
        # No param: that the files lie in another folder now is no reason to lay them out again.
        place=GRID.of_dataset(CHOSEN.place_of),
    params:
        thinwire=THINWIRE,
        module=GRID.of_dataset(lambda dataset: dataset.use),
        options=GRID.of_dataset(inputs.dataset_options),
        # A plug-in's file may change and keep its time.
        source=GRID.of_dataset(inputs.dataset_digest),
    shell:
        "{params.thinwire} data {params.module:q} --label {wildcards.dataset:q} --options {params.options:q} {resources.place}"
        " > {log:q} 2>&1 || {{ cat {log:q} >&2; exit 1; }}"
