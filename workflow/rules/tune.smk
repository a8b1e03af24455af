# What a tuning has chosen, from the records of its trials, with its figure.
rule tune:
    input:
        lambda wildcards: GRID.records(record.RUN, suite=f"tuning/{wildcards.tuned}"),
    output:
        # They are part of the project, and stay as they are if this fails.
        [update(path) for path in outputs.choices("{tuned}")],
        outputs.best_so_far("{tuned}"),
    log:
        "results/logs/tune/{tuned}.txt",
    # It takes seconds, so it runs where snakemake itself runs.
    localrule: True
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    shell:
        # The choices stand on the terminal, too, with what a person should look at.
        CALL.thinwire("tuned {wildcards.tuned:q} | tee {log:q}")
