"""Suites: what is to be run. Read and validated without torch."""
