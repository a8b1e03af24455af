"""Arrays on disk, samplers, augmentation."""
