"""Groups of members on either consensus core in the simulator, for ``bench.push_and_pull``."""
