"""Traces: what each worker computes, sends and waits for, and when."""
