"""Spark over run folders: gold tables of one run, or of all runs in a store."""

from kraftwreck.pipeline.background import Handle, start
from kraftwreck.pipeline.java import PipelineError

__all__ = ["Handle", "PipelineError", "start"]
