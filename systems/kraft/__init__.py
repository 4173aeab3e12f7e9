"""KRaft under test: how it is deployed, what clients ask of it."""
