"""The records of a run, read once for all checkers: traces, messages, disks, committed log."""
