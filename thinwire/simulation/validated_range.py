"""What the simulation has been compared with: docs/simulation.md has the comparison and its errors."""

# The fewest and the most workers of the emulated runs whose times were predicted.
VALIDATED_WORKERS = (2, 4)
