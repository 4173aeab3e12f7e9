"""The broker role, pure: its life, what it forwards, and what it answers by itself."""
