"""Checks results again, archives records, rebuilds what follows from them, and puts a rerun beside them."""
