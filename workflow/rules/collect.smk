# All records of the chosen suites, as tidy tables.
rule collect:
    input:
        records(record.RUN),
        records(record.CURVE),
    output:
        summary="results/summary.csv",
        curves="results/curves.parquet",
    log:
        "results/logs/collect.txt",
    params:
        suites=" ".join(SUITES),
    threads: 1
    shell:
        "{THINWIRE} collect {params.suites} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}"
