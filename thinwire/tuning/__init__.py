"""From the records of a tuning's trials to a choice for each method."""
