"""HTML pages on runs and stores, and JUnit files for continuous integration."""
