"""Suites, which describe what to run. They are read and validated without torch."""
