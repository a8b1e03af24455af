"""The version of RULES.md that this code follows."""

# Results are comparable only under the same version. Raise it with every change that alters results. Then all
# runs are repeated.
RULES_VERSION = 3
