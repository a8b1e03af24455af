"""Emulated clusters: nodes are network namespaces of this machine, joined by links of a limited rate."""
