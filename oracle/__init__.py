"""Apache Kafka as the oracle of our nodes: fetching its pinned jars and driving its programs."""
