"""Pure functions from histories and traces to verdicts."""
