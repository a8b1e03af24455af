# Tables and figures, from the collected files and simulated times only: a rule for each suite, because those
# that are simulated have more of them.
for suite in GRID.suites:

    rule:
        name:
            f"report_{flat(suite)}"
        input:
            summary="results/summary.csv",
            curves="results/curves.parquet",
            traffic="results/traffic.parquet",
            digests="results/collected.json",
            simulated=[outputs.times(suite)] if suite in SIMULATED else [],
        output:
            report_entries.entries(
                outputs.report(
                    suite,
                    GRID.cells_of(suite),
                    SIMULATED.get(suite),
                    outputs.has_ladder(suite),
                )
            ),
        log:
            f"results/logs/report/{suite}.txt",
        # It takes seconds or needs the internet, so it runs where snakemake itself runs.
        localrule: True
        conda:
            "../../envs/thinwire.yaml"
        threads: 1
        params:
            thinwire=THINWIRE,
            suite=suite,
        shell:
            "{params.thinwire} report {params.suite:q} > {log:q} 2>&1 || {{ cat {log:q} >&2; exit 1; }}"
