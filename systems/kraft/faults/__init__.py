"""Faults of KRaft: families and shapes of its own, and the transitions that trigger faults."""
