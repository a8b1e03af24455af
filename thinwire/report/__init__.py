"""From run records to tables and figures."""
