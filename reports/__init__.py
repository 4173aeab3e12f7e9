"""HTML reports: one run, the store's index; JUnit for continuous integration."""
