"""Codecs that methods may use: which entries of a tensor to send, and how to encode them."""
