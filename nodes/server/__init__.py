"""The asyncio shell: sockets, files, clocks around a pure node."""
