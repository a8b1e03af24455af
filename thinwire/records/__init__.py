"""What holds in the record of every run."""
