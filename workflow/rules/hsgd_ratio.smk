# The ratio between the ends of HSGD's ladder, over computing and links: simulated, without data.
rule hsgd_ratio:
    input:
        outputs.hsgd_ratio_sources(),
    output:
        report_entries.entries(outputs.hsgd_ratio()),
    log:
        "results/logs/hsgd_ratio.txt",
    conda:
        "../../envs/thinwire.yaml"
    threads: 1
    params:
        thinwire=THINWIRE,
    shell:
        "{params.thinwire} hsgd_ratio > {log:q} 2>&1 || {{ cat {log:q} >&2; exit 1; }}"
