"""The paper: every number and figure in it comes from collected files, and leads back to them."""
