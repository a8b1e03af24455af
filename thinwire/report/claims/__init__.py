"""Verdicts on the claims of publications, from the collected runs; docs/claims.md explains them."""
