"""Administration of a cluster over Kafka's protocol: ``python3 -m kraftwreck.nodes.admin``."""
