"""Small services built on the project's parts, as examples."""
