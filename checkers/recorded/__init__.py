"""What a run left, read once for all checkers: traces, messages, disks, the committed log."""
