"""Controllers and brokers on hosts, over SSH."""
