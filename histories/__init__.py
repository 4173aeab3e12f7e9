"""What a run leaves behind: operations, traces, faults and verdicts, and how they are stored.

The ground floor, beside ``nodes``: it imports nothing of the project.
"""
