"""The control plane: clusters, SSH, deployment, generators, the run loop, the store."""
