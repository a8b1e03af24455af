"""Simulates the time of a schedule on a described cluster."""
