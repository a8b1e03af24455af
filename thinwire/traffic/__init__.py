"""Every byte is metered here: what was handed over, what that is on the wire, what crossed nodes."""
