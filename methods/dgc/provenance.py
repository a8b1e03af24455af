"""Where each step of the method comes from."""

from thinwire import Part

PROVENANCE = (
    Part("momentum before the selection", "certain", "Lin et al."),
    Part("largest entries of its sum are sent", "certain", "Lin et al."),
    Part("momentum of what was sent starts again", "certain", "Lin et al."),
    Part("densities of the warm-up", "certain", "Lin et al.; the code has a power law"),
    Part("gaps between positions in 16 bits", "certain", "Lin et al."),
    Part("threshold from a sample", "certain", "Lin et al."),
    Part("repeated correction of the threshold", "from code", "the paper does not say how often"),
    Part(
        "the k largest above the threshold",
        "ours",
        "of at most 1.3 k, the code takes the first k by position",
    ),
    Part(
        "stride of the sample",
        "ours",
        "no divisor in common with the tensor's size; in the code it is odd",
    ),
    Part("small tensors are averaged", "from code", "only tensors with several dimensions are compressed"),
    Part("Nesterov momentum", "from code", "the paper's appendix was not read"),
    Part("weight decay with its own momentum", "from code", "it is not compressed"),
    Part("dense steps at density 1", "from code", "a case of its own there"),
    Part("clipping at the norm over sqrt(W)", "certain", "Lin et al.; the norm is over all tensors"),
    Part("Adam", "ours", "neither paper nor code has it"),
)
