"""Schedules: what a worker computes, sends and waits for in each step, in its order."""
