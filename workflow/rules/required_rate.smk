# The rate of links at which DASO saves the time that its publication states: simulated, without data.
rule required_rate:
    input:
        outputs.required_rate_sources(),
    output:
        report_entries.entries(outputs.required_rate()),
    log:
        "results/logs/required_rate.txt",
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    params:
        thinwire=THINWIRE,
    shell:
        "{params.thinwire} required_rate > {log:q} 2>&1 || {{ cat {log:q} >&2; exit 1; }}"
