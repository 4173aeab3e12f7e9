"""Textbook push Raft as a pure state machine, on the log and effects of the other core."""
