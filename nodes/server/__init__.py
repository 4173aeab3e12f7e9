"""The asyncio shell: one process, one node, real sockets and a real disk."""
