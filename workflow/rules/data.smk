# Data sets: fetched, verified and laid out once, shared by all cells.
rule data:
    input:
        lambda wildcards: source("dataset", wildcards.dataset),
    output:
        "results/data/{dataset}/manifest.json",
    log:
        "results/logs/data/{dataset}.txt",
    params:
        place=lambda wildcards: f"--from {DATA}/{wildcards.dataset}" if DATA else "",
    threads: 1
    shell:
        "{THINWIRE} data {wildcards.dataset} {params.place} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
