"""Codecs that methods may use; no part of the contract."""
