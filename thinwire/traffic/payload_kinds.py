"""The kinds of payload: what a tensor contains. Each kind has rows of its own in the ledgers."""

KINDS = ("values", "indices", "scales", "sizes", "weights", "buffers", "control")
