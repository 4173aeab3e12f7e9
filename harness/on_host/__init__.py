"""What runs on a host for the control node: sent over SSH, the standard library only."""
