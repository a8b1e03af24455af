# What `snakemake` in a clone runs; the workflow itself is in workflow/.
include: "workflow/Snakefile"


# The default target of an included file is none of the file that includes it.
rule default:
    default_target: True
    input:
        rules.all.input,
