# The results as a research object: an RO-Crate that describes each run, from the records only.
rule crate:
    input:
        outputs.in_crate(CHOSEN, GRID, SIMULATED),
    output:
        outputs.CRATE,
    log:
        "results/logs/crate.txt",
    # It takes seconds or needs the internet, so it runs where snakemake itself runs.
    localrule: True
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    params:
        thinwire=THINWIRE,
    shell:
        "{params.thinwire} crate > {log:q} 2>&1 || {{ cat {log:q} >&2; exit 1; }}"
