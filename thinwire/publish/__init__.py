"""What others read: page, paper, W&B."""
