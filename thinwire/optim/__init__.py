"""Recipes: optimizers and learning-rate schedules, the same for every method."""
