"""Where each step of the method comes from."""

from thinwire import Part

PROVENANCE = (
    Part("weights jump to forecasts", "certain", "the abstract"),
    Part("after five epochs, five epochs ahead", "from code", "from five values of each weight"),
    Part("three forecasters and their layers", "from code", "convolutions, linear layers, biases"),
    Part("normalised histories", "from code", "by their first value and their range"),
    Part("normalised last value of a bias", "ours", "the code omits it; option bias_rule"),
    Part("normalisation and optimizer do not jump", "from code", "they are left as they are"),
    Part("no jump after the last step", "ours", "batch norm would not fit its weights"),
    Part("training of the forecasters", "ours", "the authors' is not published"),
    Part("all workers forecast by themselves", "ours", "neither its publication nor MP2's says how"),
)
