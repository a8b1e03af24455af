# The page of all results, from the records, the collected files and the tables.
rule page:
    input:
        outputs.shown_on_page(CHOSEN, GRID, SIMULATED),
        simulated=[outputs.times(suite) for suite in SIMULATED],
    output:
        report_entries.entries([outputs.PAGE]),
    log:
        "results/logs/page.txt",
    # It takes seconds or needs the internet, so it runs where snakemake itself runs.
    localrule: True
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    params:
        thinwire=THINWIRE,
    shell:
        "{params.thinwire} page > {log:q} 2>&1 || {{ cat {log:q} >&2; exit 1; }}"
