"""Results of others: training a cell of theirs again, taking in their methods, and how far each is proved."""
