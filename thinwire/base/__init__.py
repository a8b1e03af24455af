"""What all rooms stand on: errors, files, digests, options, names, seeds, placement, signals."""
