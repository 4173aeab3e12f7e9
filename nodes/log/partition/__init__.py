"""Logs of user partitions, in Kafka's files. No node uses them yet (decision 0007)."""
