"""The tables of a suite: `summary` in four formats, and `traffic` with all ledgers."""
