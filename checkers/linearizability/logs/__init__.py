"""Linearizability of append-only logs, decided by levels instead of a search."""
