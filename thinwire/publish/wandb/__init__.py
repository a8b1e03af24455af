"""Runs of W&B."""
