"""A deterministic world for nodes and clients: virtual time, network, disks, kills and pauses."""
