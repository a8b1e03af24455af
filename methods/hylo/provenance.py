"""Where each step of the method comes from."""

from thinwire import Part

PROVENANCE = (
    Part("rules by type of layer, for large ones only", "certain", "the abstract"),
    Part("important kernels are pushed", "certain", "the abstract"),
    Part("two bits for linear layers", "certain", "the abstract"),
    Part("what is not pushed is kept for later", "certain", "the abstract"),
    Part("which layers are large", "ours", "the abstract names no size"),
    Part("share of the kernels", "ours", "the abstract: it follows from the layer's size"),
    Part("importance: norm of residual plus gradient", "ours", "the abstract names no measure"),
    Part("threshold: mean magnitude", "ours", "the abstract: it follows from all gradients of the layer"),
    Part("layout of the two bits", "related work", "MXNet"),
    Part(
        "optimizer on the servers, dense pulls",
        "related work",
        "MXNet; the abstract does not mention pulls",
    ),
    Part("biases and normalisation are dense", "ours", "the abstract does not mention them"),
    Part("uniform compression, random kernels, no residual", "ours", "controls"),
)
