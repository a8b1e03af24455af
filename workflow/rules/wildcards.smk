# GPUs are counted for each machine.
resource_scopes:
    local_gpus="local",


# The names of suites come from the command line, the others from the paths of records.
wildcard_constraints:
    suite=wildcard_patterns.one_of(CHOSEN.suites),
    tuned=wildcard_patterns.one_of(CHOSEN.tuned),
    preparation=wildcard_patterns.PREPARATION,
    dataset=wildcard_patterns.ANY,
    model=wildcard_patterns.ANY,
    size=wildcard_patterns.SIZE,
    seed=wildcard_patterns.SEED,
    project=wildcard_patterns.ANY,
