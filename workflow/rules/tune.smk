# The best trials of a tuning, which run again if it has finals.
checkpoint finalists:
    input:
        lambda wildcards: GRID.records_of_trials(wildcards.tuned),
    output:
        "results/finalists/{tuned}.json",
    log:
        "results/logs/finalists/{tuned}.txt",
    localrule: True
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    params:
        settings=lambda wildcards: outputs.settings_of_tuning(wildcards.tuned),
    shell:
        # 1: the finals are missing, and the log says so.
        CALL.thinwire(
            "tuned {wildcards.tuned:q} > {log:q} 2>&1 || [ -e {output:q} ] || {{ cat {log:q} >&2; exit 1; }}"
        )


# What a tuning has chosen, from the records of its trials, with its figure: a rule for each suite, because the
# choices are in the folder that has the suite.
for tuned in CHOSEN.tuned:

    rule:
        name:
            f"tune_{flat(tuned)}"
        input:
            GRID.records_of_trials(tuned),
            GRID.ends_of_finals(tuned),
        output:
            # They are part of the project, and stay as they are if this fails.
            [update(path) for path in outputs.choices(tuned)],
            outputs.best_so_far(tuned),
        log:
            f"results/logs/tune/{tuned}.txt",
        # It takes seconds, so it runs where snakemake itself runs.
        localrule: True
        conda:
            "../../envs/thinwire.yaml"
        threads: 1
        params:
            suite=tuned,
            # Of methods that take the values of others, and of how the best trial is chosen, no record knows.
            settings=outputs.settings_of_tuning(tuned),
        shell:
            # The choices stand on the terminal, too, with what a person should look at.
            CALL.thinwire("tuned {params.suite:q} | tee {log:q}")
