"""Access to hosts over SSH: sessions, nodes and their files, faults, and observation."""
