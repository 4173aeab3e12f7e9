"""Logs of user partitions, in Kafka's files."""
