"""The records of a run (operations, traces, faults, verdicts) and their storage.

The lowest layer, beside ``nodes``: it imports nothing of the project.
"""
