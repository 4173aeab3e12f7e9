"""Code that runs on hosts, sent over SSH; it uses only the standard library."""
