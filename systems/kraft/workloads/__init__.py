"""The workloads that speak Kafka's administration."""
