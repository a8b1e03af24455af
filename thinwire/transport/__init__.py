"""Transports: they carry the calls of the workers, inside one process or between processes."""
