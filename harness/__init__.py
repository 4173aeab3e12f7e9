"""The control plane: clusters, SSH, deployment, clients, the run loop."""
