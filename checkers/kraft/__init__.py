"""The checkers of KRaft: its nodes' traces, disks, messages and answers."""
