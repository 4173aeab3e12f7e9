"""PySyncObj, a Raft library in Python, with a small server around it on each host."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from socket import socket
from typing import Any

from kraftwreck.api import (
    VERBS,
    Artefact,
    Completion,
    Files,
    Member,
    Op,
    Place,
    PlainSystem,
    PortOpen,
    Process,
    Wheels,
    carry_out,
    dial,
    keys_of,
)

RAFT, CLIENTS = 4321, 4322
PYTHON = "/usr/bin/python3"
SERVER = Path(__file__).with_name("pysyncobj_server.py")
VERSIONS = {
    "0.3.14": "69d34e672257694f83f50dfb5e6e7ce446a68dba09ed48e142c782380d6428d4",
    "0.3.17": "8aaef68141714d556173778a51bcc4e221b6fd4c971dc1240f3ab4c0d2dfe765",
}
ANSWER_S = 3.0


class RefusedError(Exception):
    """The command was certainly not carried out."""


class Client:
    """A client of one member's server."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.socket: socket | None = None

    def ask(self, **request: Any) -> dict[str, Any]:
        """Return the answer. Raises :class:`RefusedError` and OSError."""
        if self.socket is None:
            self.socket = dial((self.place.ip, CLIENTS), ANSWER_S, self.place.gateway)
            self.file = self.socket.makefile("rb")
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        line = self.file.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the connection was closed")
        answer: dict[str, Any] = json.loads(line)
        if "error" not in answer:
            return answer
        raise (RefusedError if answer["refused"] else OSError)(answer["error"])

    def read(self, keys: Sequence[Any]) -> dict[Any, tuple[int, Any]]:
        """Return version and value of each key."""
        texts = [json.dumps(key) for key in keys]
        found = self.ask(keys=texts)["values"]
        return {key: tuple(found[text]) for key, text in zip(keys, texts, strict=True)}

    def write(self, found: dict[Any, tuple[int, Any]], values: dict[Any, Any]) -> bool:
        """Write values, unless a key was changed since it was found; return whether it was done."""
        compare = {json.dumps(key): version for key, (version, _) in found.items()}
        written = {json.dumps(key): value for key, value in values.items()}
        return bool(self.ask(compare=compare, write=written)["done"])

    def invoke(self, op: Op) -> Completion:
        sent = False
        try:
            while True:
                found = self.read(keys_of(op))
                present = {key: value for key, (_, value) in found.items()}
                values, completion = carry_out(op, present)
                sent = bool(values)
                if not sent or self.write(found, values):
                    return completion
                sent = False  # Another client was faster.
        except RefusedError as error:
            return Completion("fail", error=f"refused: {error}")
        except OSError as error:
            self.close()
            return Completion("info" if sent else "fail", error=str(error))

    def close(self) -> None:
        if self.socket is not None:
            self.file.close()
            self.socket.close()
        self.socket = None


class PySyncObj(PlainSystem):
    """Every operation is a command of the replicated log; reads are, too."""

    name = "pysyncobj"
    about = "PySyncObj, a Raft library in Python, with a small server around it"
    default_workload = "register"
    workloads = ()
    verbs = VERBS
    checkers = ("members",)
    options = {"version": ("0.3.17", "0.3.14")}  # noqa: RUF012 - as the base class has it

    def artefacts(self) -> Sequence[Artefact]:
        version = self.option("version")
        library = Wheels(name="pysyncobj", packages={f"pysyncobj=={version}": VERSIONS[version]})
        return [library, Files(name="server", paths=(SERVER,))]

    def processes(self, place: Place, places: Sequence[Place]) -> Sequence[Process]:
        peers = [each.ip for each in places if each.ip != place.ip]
        server = f"{place.artefact('server')}/{SERVER.name}"
        journal = f"{place.data()}/journal"
        return [
            Process(
                argv=(PYTHON, server, place.ip, str(RAFT), str(CLIENTS), journal, *peers),
                environment={"PYTHONPATH": place.artefact("pysyncobj"), "PYTHONUNBUFFERED": "1"},
                folders=(place.data(),),
                ports={"clients": CLIENTS, "raft": RAFT},
                ready=PortOpen(CLIENTS),
            )
        ]

    def client(self, place: Place) -> Client:
        return Client(place)

    def inspect(self, place: Place) -> Member:
        client = Client(place)
        try:
            told = client.ask(state=True)
        finally:
            client.close()
        return Member(told["position"], told["state"])

    def unready(self, places: Sequence[Place]) -> str:
        for place in places:
            try:
                client = Client(place)
                client.read(["ready"])
                client.close()
            except (OSError, RefusedError) as error:
                return f"{place.name} does not serve: {error}"
        return ""


SYSTEM = PySyncObj()
