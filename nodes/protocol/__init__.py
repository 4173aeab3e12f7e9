"""Kafka's wire: message schemas, one codec, request frames, metadata records, error codes."""
