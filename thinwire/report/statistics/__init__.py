"""Statistics of comparisons."""
