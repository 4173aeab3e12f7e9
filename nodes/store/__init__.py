"""A replicated store of registers, sets, counters and lists on any consensus core."""
