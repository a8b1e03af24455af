"""Where each step of the method comes from."""

from thinwire import Part

PROVENANCE = (
    Part("local steps between two exchanges", "certain", "the abstract; their number adapts"),
    Part("gradients update a global model", "certain", "the abstract"),
    Part("a correction of the local model", "certain", "the abstract; it gives no formula"),
    Part("sub-tensors by priority", "certain", "the abstract; it gives no size and no order"),
    Part("correction inside a round", "related work", "SSD-SGD"),
    Part("its weights, scaled to sum 1", "ours", "SSD-SGD's learning rate is another"),
    Part("correction at the end of a round", "ours", "by default all the way, as in Local SGD"),
    Part(
        "interval from loss and learning rate",
        "related work",
        "AdaComm, as Paddle's code has it; there the first interval is under the root, too",
    ),
    Part("first interval", "ours", "no run in one process has timings"),
    Part("a warm-up of single steps", "related work", "SSD-SGD's code"),
    Part("a sum lands a round later; option delay", "related work", "CoCoD-SGD"),
    Part("input side first, within a credit", "related work", "P3; ByteScheduler"),
    Part("weight decay in local gradients", "ours", "rounds of one step are then SSGD"),
    Part("weights that are delivered", "ours", "the global model, as far as it has landed"),
    Part("output side first, a control", "ours", "option order: fifo"),
    Part("momentum in the local steps", "ours", "as Local SGD has it; option local_momentum"),
)
