"""The command line: one file per command. The top floor: it may import everything."""
