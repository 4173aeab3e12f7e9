"""Linearizability of objects with more state than a register: locks, queues, sets, counters."""
