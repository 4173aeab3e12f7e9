"""The systems under test, one adapter each."""
