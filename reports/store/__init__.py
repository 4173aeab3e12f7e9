"""Pages about many runs: the store's overview, its nights, and comparisons of two runs."""
