"""The log on disk: record batches, segments, quorum-state, formatting."""
