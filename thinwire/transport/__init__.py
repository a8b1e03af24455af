"""How bytes really move."""
