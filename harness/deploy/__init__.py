"""Deployment of any server over SSH: artefacts, processes by name, readiness, limits, files."""
