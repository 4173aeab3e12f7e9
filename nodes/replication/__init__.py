"""The data plane of a broker, pure: partitions, their replication, and the requests that wait."""
