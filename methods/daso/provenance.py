"""Where each step of the method comes from."""

from thinwire import Part

PROVENANCE = (
    Part("exchange between nodes at a changing rate", "certain", "the abstract"),
    Part("asynchronous exchange", "certain", "the abstract"),
    Part("gradients averaged inside nodes", "from code", "class DASO of Heat"),
    Part("one worker of each node sends weights", "from code", "class DASO of Heat; the groups take turns"),
    Part("merging with weight 2 S", "from code", "class DASO of Heat"),
    Part("intervals shrink when the loss stalls", "from code", "class DASO of Heat"),
    Part("blocking epochs in 16 bits", "from code", "class DASO of Heat; at the beginning and the end"),
    Part("a blocking step at the end of an epoch", "from code", "class DASO of Heat"),
    Part("momentum is never exchanged", "from code", "class DASO of Heat"),
    Part("messages merge on time", "ours", "the code merges some late or loses them; option control"),
    Part("intervals without a warm-up", "ours", "the code never leaves its blocking steps; option control"),
    Part("changes in 16 bits, not weights", "ours", "the code rounds the model; option blocking_sends"),
    Part("no steps without a mean inside nodes", "ours", "an option of the code that is left out"),
    Part(
        "a fixed interval and wait",
        "from code",
        "later branches of Heat; options fixed_skips and fixed_wait",
    ),
    Part("a rate that matches the progress", "ours", "merges discard progress; option match_progress"),
)
