"""What the Snakefile decides: which jobs there are, what they depend on, and what they need on a cluster."""
