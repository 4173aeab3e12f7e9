"""What can be tested: one adapter per system."""
