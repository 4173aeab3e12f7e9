"""Fault families that serve any system: one class for each family."""
