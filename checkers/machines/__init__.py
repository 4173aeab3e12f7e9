"""Linearizability of things with more state than a register: locks, queues, sets, counters."""
