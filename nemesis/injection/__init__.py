"""The drivers that carry out and undo faults, one file for each kind."""
