"""The controller: cluster metadata as a replicated state machine."""
