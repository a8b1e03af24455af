"""The W&B mirror: a view of the records, which no table or figure reads."""
