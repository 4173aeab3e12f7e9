"""The command line: one file per command. This top layer may import every other package."""
