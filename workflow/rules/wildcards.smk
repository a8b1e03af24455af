# The names of suites come from the command line, the others from the paths of records.
wildcard_constraints:
    suite=patterns.one_of(CHOSEN.suites),
    tuned=patterns.one_of(CHOSEN.tuned),
    preparation=patterns.PREPARATION,
    dataset=patterns.ANY,
    model=patterns.ANY,
    size=patterns.SIZE,
    seed=patterns.SEED,
    project=patterns.ANY,
