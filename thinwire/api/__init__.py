"""What a person writes against: methods, channels, servers, models."""
