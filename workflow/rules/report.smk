# Tables and figures of a suite, from the collected files only.
rule report:
    input:
        summary="results/summary.csv",
        curves="results/curves.parquet",
        digests="results/collected.json",
    output:
        outputs.tables("{suite}"),
        outputs.figures("{suite}"),
    log:
        "results/logs/report/{suite}.txt",
    # It takes seconds or needs the internet, so it runs where snakemake itself runs.
    localrule: True
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    params:
        thinwire=THINWIRE,
    shell:
        "{params.thinwire} report {wildcards.suite:q} > {log:q} 2>&1 || {{ cat {log:q} >&2; exit 1; }}"
