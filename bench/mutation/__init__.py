"""Mutation of single places in source files, and the tests that reach them."""
