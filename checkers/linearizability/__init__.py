"""Linearizability: models, searches for a legal order, and an independent check of orders."""
