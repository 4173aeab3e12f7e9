"""The quorum as an executable model: what a replica may do next, given all that happened."""
