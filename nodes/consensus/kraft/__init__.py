"""KRaft: Kafka's pull-based Raft (KIP-595, KIP-996) as a pure state machine."""
