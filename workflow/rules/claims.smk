# Verdicts on the claims of the publications, from the runs of all suites that are collected.
rule claims:
    input:
        summary="results/summary.csv",
        curves="results/curves.parquet",
        digests="results/collected.json",
        simulated=[outputs.times(suite) for suite in SIMULATED],
        described=inputs.files_with_claims(),
    output:
        outputs.claims(),
    log:
        "results/logs/claims.txt",
    # It takes seconds, so it runs where snakemake itself runs.
    localrule: True
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    params:
        thinwire=THINWIRE,
    shell:
        "{params.thinwire} claims > {log:q} 2>&1 || {{ cat {log:q} >&2; exit 1; }}"
