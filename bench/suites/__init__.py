"""Test suites of Kafka clients that others wrote, run against Apache Kafka and against ours."""
