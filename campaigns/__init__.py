"""Many simulated tests: their settings by seed, hunts, steering by coverage, and shrinking."""
