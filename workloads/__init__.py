"""What clients do, one workload per file."""
