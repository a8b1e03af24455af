# The paper, from collected files, tables and figures only. It is about the demo, and uses other suites that are there.
rule paper:
    input:
        reports=outputs.tables_and_figures(CHOSEN, GRID, SIMULATED),
        simulated=[*outputs.required_rate(), *outputs.hsgd_ratio()],
        sources=outputs.paper_sources(),
    output:
        pdf=f"results/{outputs.PAPER}",
    log:
        "results/logs/paper.txt",
    # It takes seconds or needs the internet, so it runs where snakemake itself runs.
    localrule: True
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    params:
        thinwire=THINWIRE,
    shell:
        "{params.thinwire} paper > {log:q} 2>&1 || {{ cat {log:q} >&2; exit 1; }}"
