# The runs of a suite, for W&B to browse and to send: offline, and from the records only. Where there is no
# W&B, the note says so, a line on the terminal too, and nothing fails.
rule track:
    input:
        lambda wildcards: GRID.records(
            record.RUN, record.CURVE, suite=GRID.projects[wildcards.project]
        ),
    output:
        f"results/wandb/{{project}}/{outputs.NOTE}",
    log:
        "results/logs/track/{project}.txt",
    # It takes seconds or needs the internet, so it runs where snakemake itself runs.
    localrule: True
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    params:
        thinwire=THINWIRE,
        suite=lambda wildcards: GRID.projects[wildcards.project],
        only=lambda wildcards: GRID.option_of(
            GRID.projects[wildcards.project], CHOSEN.subset
        ),
    shell:
        "{params.thinwire} track {params.suite:q} {params.only:q} > {log:q}"
