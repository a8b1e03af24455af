"""The tests: a package, so that another one of this name is not taken for it, in whatever folder."""
