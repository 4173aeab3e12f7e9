"""A replicated lock service with sessions and watches; see ``docs/embedding.md``."""
