"""Spark jobs over one run or many."""
