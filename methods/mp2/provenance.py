"""Where each step of the method comes from."""

from thinwire import Part

PROVENANCE = (
    Part("few layers are sent, others predicted", "certain", "the abstract"),
    Part(
        "first layers, always the same",
        "from code",
        "all before the third resolution, in ResNets before the fourth",
    ),
    Part("weights are pushed, not gradients", "from code", "each worker steps by itself"),
    Part("one server sends the whole model back", "from code", "after a mean of what was pushed"),
    Part("the predictor's layers", "from code", "a small network for each model"),
    Part("it is trained on the model's loss", "from code", "and not on the distance between weights"),
    Part("weights of 15 random steps an epoch", "from code", "of a whole dense run"),
    Part("it does not change afterwards", "from code", "the server only applies it"),
    Part("nine tenths of the images train it", "ours", "the code chooses it on the test set"),
    Part("the best is chosen after each pass", "ours", "the code chooses after each batch of prefixes"),
    Part("prefixes in random order", "ours", "in the code as they were recorded"),
    Part("standardised images, single precision", "ours", "the code divides by 255, in double precision"),
    Part("initial weights of the model", "ours", "methods start alike here"),
    Part("no batch norm", "ours", "the authors' models have none"),
    Part("gradients of the first layers only", "from code", "nothing needs the others"),
    Part("constants for each model", "from code", "option preset: published"),
    Part("a predictor whose input is constant", "ours", "a control"),
)
