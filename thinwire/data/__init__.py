"""Data sets as arrays on disk, the order in which workers read them, and augmentation."""
