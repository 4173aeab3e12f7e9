"""Planted bugs: patches against nodes/ and their catalogue."""
