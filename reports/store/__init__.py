"""Pages over many runs: the store's overview, its nights, and two runs side by side."""
