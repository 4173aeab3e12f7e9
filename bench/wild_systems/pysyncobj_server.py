"""A replicated store on PySyncObj, for hosts: one JSON object per line in, one out.

    python3 pysyncobj_server.py IP RAFT_PORT CLIENT_PORT JOURNAL PEER_IP...

``{"keys": [...]}`` returns the values and versions of keys, ``{"compare": ..., "write": ...}``
writes if no version has changed; both go through the replicated log. ``{"state": true}`` returns
the values of this member and the last entry that it has applied. Journal and snapshots are files.
"""

from __future__ import annotations

import json
import socketserver
import sys
from typing import Any

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, SyncObjException, replicated

TIMEOUT_S = 2.0
REFUSED = (FAIL_REASON.QUEUE_FULL, FAIL_REASON.MISSING_LEADER)
"""Reasons with which a command was certainly not proposed."""


class Store(SyncObj):  # type: ignore[misc]
    """Values with versions, by the JSON text of their keys."""

    def __init__(self, me: str, others: list[str], journal: str) -> None:
        files = {"journalFile": journal, "fullDumpFile": f"{journal}.dump"}
        super().__init__(me, others, SyncObjConf(**files))
        self.data: dict[str, list[Any]] = {}  # Snapshots hold what is set from here on.

    @replicated  # type: ignore[untyped-decorator]
    def look(self, keys: list[str]) -> dict[str, list[Any]]:
        """Return [version, value] of each key; version 0 for one that was never written."""
        return {key: self.data.get(key, [0, None]) for key in keys}

    @replicated  # type: ignore[untyped-decorator]
    def write(self, compare: dict[str, int], values: dict[str, Any]) -> bool:
        """Write ``values`` unless a version has changed; return whether that was done."""
        if any(self.data.get(key, [0])[0] != version for key, version in compare.items()):
            return False
        for key, value in values.items():
            self.data[key] = [compare[key] + 1, value]
        return True


class Handler(socketserver.StreamRequestHandler):
    """One connection of a client."""

    store: Store

    def handle(self) -> None:
        """Answer requests until the client leaves."""
        for line in self.rfile:
            self.wfile.write(json.dumps(self.answer(json.loads(line))).encode() + b"\n")

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request."""
        store = self.store
        if "state" in request:
            state = {key: value for key, (_, value) in dict(store.data).items()}
            return {"state": state, "position": store.raftLastApplied}
        try:
            if "keys" in request:
                return {"values": store.look(request["keys"], sync=True, timeout=TIMEOUT_S)}
            arguments = request["compare"], request["write"]
            return {"done": store.write(*arguments, sync=True, timeout=TIMEOUT_S)}
        except SyncObjException as error:
            return {"error": str(error.errorCode), "refused": error.errorCode in REFUSED}


class Server(socketserver.ThreadingTCPServer):
    """A thread for each client."""

    daemon_threads = True
    allow_reuse_address = True


def main() -> None:
    """Serve until the process is ended."""
    ip, raft, clients, journal, *peers = sys.argv[1:]
    Handler.store = Store(f"{ip}:{raft}", [f"{peer}:{raft}" for peer in peers], journal)
    Server((ip, int(clients)), Handler).serve_forever()


if __name__ == "__main__":
    main()
