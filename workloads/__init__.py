"""The workloads, one per file: the operations of clients."""
