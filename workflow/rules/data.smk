# Data sets: fetched, verified and laid out once, shared by all cells.
rule data:
    input:
        lambda wildcards: source("dataset", wildcards.dataset),
    output:
        "results/data/{dataset}/manifest.json",
    log:
        "results/logs/data/{dataset}.txt",
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    params:
        thinwire=THINWIRE,
        place=lambda wildcards: f"--from {DATA}/{wildcards.dataset}" if DATA else "",
    shell:
        "{params.thinwire} data {wildcards.dataset} {params.place} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
