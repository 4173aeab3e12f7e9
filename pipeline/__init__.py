"""Spark over run folders: gold tables of one run, or of all runs in a store."""

from pipeline.background import Handle, start
from pipeline.java import PipelineError

__all__ = ["Handle", "PipelineError", "start"]
