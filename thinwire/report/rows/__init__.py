"""The rows of tidy files."""
