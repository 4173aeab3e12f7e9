"""Tests of the data plane's pure core."""
