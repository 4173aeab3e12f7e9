"""The records of a run of KRaft, read once for all rules."""
