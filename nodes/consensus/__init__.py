"""Consensus as pure state machines: no socket, clock, file, thread or random call."""
