"""Small services built on the project's parts, to read and to copy from."""
