"""KRaft in the simulator: its world, watches and invariants, and whole runs."""
