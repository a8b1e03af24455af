"""What all rooms stand on: errors, files, digests, options, folders, seeds, placement, signals."""
