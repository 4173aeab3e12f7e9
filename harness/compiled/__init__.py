"""A copy of the project with modules compiled by mypyc."""
