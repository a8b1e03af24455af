# All records of the chosen suites, as tidy tables.
rule collect:
    input:
        GRID.records(record.RUN),
        GRID.records(record.CURVE),
        GRID.records(record.TRAFFIC),
    output:
        summary="results/summary.csv",
        curves="results/curves.parquet",
        traffic="results/traffic.parquet",
        digests="results/collected.json",
    log:
        "results/logs/collect.txt",
    # It takes seconds or needs the internet, so it runs where snakemake itself runs.
    localrule: True
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    params:
        thinwire=THINWIRE,
        suites=CHOSEN.suites,
        only=CHOSEN.subset.option(),
    shell:
        "{params.thinwire} collect {params.suites:q} {params.only:q} > {log:q} 2>&1 || {{ cat {log:q} >&2; exit 1; }}"
