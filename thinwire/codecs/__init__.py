"""A library that methods may use: what to send of a tensor, and how to write it down."""
