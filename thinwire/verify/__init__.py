"""Checks every record under a folder of results again, and what was made of the records."""
