"""The broker role, pure: its lifecycle, request forwarding, and answers from its own image."""
