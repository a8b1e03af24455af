# What is made from records. These jobs take seconds or need the internet, so they run where snakemake itself runs.
# They are made again when the code that makes them changes: `code`.


# All records of the chosen suites, as tidy tables.
rule collect:
    input:
        GRID.records(record.RUN),
        GRID.records(record.CURVE),
        GRID.records(record.TRAFFIC),
    output:
        summary="results/summary.csv",
        curves="results/curves.parquet",
        traffic="results/traffic.parquet",
        digests="results/collected.json",
    log:
        "results/logs/collect.txt",
    localrule: True
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    params:
        suites=CHOSEN.suites,
        only=CHOSEN.subset.option(),
        code=inputs.digest_of_code("report"),
    shell:
        CALL.logged("collect {params.suites:q} {params.only:q}")


# Tables and figures, from the collected files and simulated times only: a rule for each suite, because those
# that are simulated have more of them.
for suite in GRID.suites:

    rule:
        name:
            f"report_{flat(suite)}"
        input:
            rules.collect.output,
            simulated=[outputs.times(suite)] if suite in SIMULATED else [],
            submitted=outputs.submitted(SIMULATED.get(suite)),
        output:
            outputs.entries(
                report,
                outputs.report(suite, GRID.cells_of(suite), SIMULATED.get(suite)),
            ),
        log:
            f"results/logs/report/{suite}.txt",
        localrule: True
        conda:
            "../../envs/thinwire.yaml"
        threads: 1
        params:
            suite=suite,
            # Titles, ladders and tracks are in no record.
            settings=outputs.settings_of_report(suite),
            code=inputs.digest_of_code("report"),
        shell:
            CALL.logged("report {params.suite:q}")


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
    localrule: True
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    params:
        code=inputs.digest_of_code("report", "config"),
    shell:
        CALL.logged("claims")


# The page of all results, from the records, the collected files and the tables.
rule page:
    input:
        outputs.shown_on_page(CHOSEN, GRID, SIMULATED),
        simulated=[outputs.times(suite) for suite in SIMULATED],
        # Of `thinwire times`, which no rule makes.
        without_data=outputs.times_without_data(),
    output:
        outputs.entries(report, [outputs.PAGE]),
    log:
        "results/logs/page.txt",
    localrule: True
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    params:
        code=inputs.digest_of_code("report", "publish/page"),
    shell:
        CALL.logged("page")


# The paper, from collected files, tables and figures only. It is about the demo, and uses other suites that are there.
rule paper:
    input:
        reports=outputs.tables_and_figures(CHOSEN, GRID, SIMULATED),
        simulated=outputs.hsgd_ratio(),
        quoted=outputs.quoted_by_paper(),
        sources=outputs.paper_sources(),
    output:
        pdf=f"results/{outputs.PAPER}",
    log:
        "results/logs/paper.txt",
    localrule: True
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    params:
        code=inputs.digest_of_code("publish/paper"),
    shell:
        CALL.logged("paper")


# The runs of a suite, for W&B to browse and to send: offline, from the records and the tables only. Where there
# is no W&B, the note says so, a line on the terminal too, and nothing fails.
rule track:
    input:
        lambda wildcards: GRID.records(
            record.RUN, record.CURVE, suite=GRID.projects[wildcards.project]
        ),
        lambda wildcards: f"results/tables/{GRID.projects[wildcards.project]}/{outputs.DIGESTS}",
    output:
        f"results/wandb/{{project}}/{outputs.NOTE}",
    log:
        "results/logs/track/{project}.txt",
    localrule: True
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    params:
        suite=lambda wildcards: GRID.projects[wildcards.project],
        only=lambda wildcards: GRID.option_of(
            GRID.projects[wildcards.project], CHOSEN.subset
        ),
        code=inputs.digest_of_code("publish/wandb"),
    shell:
        CALL.thinwire("track {params.suite:q} {params.only:q} > {log:q}")
