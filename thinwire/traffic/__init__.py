"""Metering of every byte: what a worker handed over, what that is on the wire, what crossed nodes."""
