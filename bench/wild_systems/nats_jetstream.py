"""NATS JetStream, built from Go modules: one stream with three replicas, on three servers.

An element of the set is a message. Any other object is the last message of its subject, which a
client compares and sets by its sequence number. All reads are answered by the stream's leader.
"""

from __future__ import annotations

import contextlib
import json
from base64 import b64decode
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from nats_protocol import Connection, NotDeliveredError, Request

from kraftwreck.api import (
    VERBS,
    Artefact,
    Completion,
    GoModule,
    Member,
    Op,
    Place,
    PlainSystem,
    PortOpen,
    Process,
    carry_out,
    dial,
    keys_of,
)

SOURCE = Path(__file__).with_name("nats_go") / "main.go"
GO_SUM = {
    "2.12.1": "a8414689fe054502c2cd33dd989b4fbf8299456c9d44033a12c4e92a80744d57",
    "2.15.2": "782620554de77cd481ef825c8d18ae2fa823ceaf35506a863c279b724e3f5cc1",
    "2.10.22": "a940fb316d93037aee134c86b1152b820fe482391d0c1907c2b63403ecc56c7f",
}
GO = {"2.12.1": "1.24.0", "2.15.2": "1.26.0", "2.10.22": "1.22"}
CLIENTS, ROUTES, MONITOR = 4222, 6222, 8222
TIMEOUT_S = 2.0
STREAM = "kraftwreck"
API = "$JS.API.STREAM"
AT_ONCE = 250
"""Requests that are sent before their replies are read."""
WRONG_SEQUENCE, NO_MESSAGE, NO_STREAM = 10071, 10037, 10059
MANY_KEYS = ("txn",)
SETTINGS = """\
server_name: {name}
listen: "{ip}:{clients}"
http: "{ip}:{monitor}"
cluster {{ name: kraftwreck, listen: "{ip}:{routes}", routes: [{others}] }}
jetstream {{
  store_dir: "{folder}", max_memory_store: 64MB, max_file_store: 40MB
  sync_interval: {sync}
}}
"""


class StreamError(Exception):
    """JetStream answered with an error; ``code`` says which."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error.get('description')} ({error.get('err_code')})")
        self.code = int(error.get("err_code", 0))


class Client:
    """A client of one server."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._connection: Connection | None = None

    def ask(self, subject: str, payload: bytes = b"", *headers: str) -> dict[str, Any]:
        """Return the reply to a request. Raises OSError and the errors of this page."""
        reply = self._open().ask(subject, payload, *headers)
        if "error" in reply:
            raise StreamError(reply["error"])
        return reply

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._place, CLIENTS, TIMEOUT_S)
        return self._connection

    def read(self, key: Any) -> tuple[Any, int]:
        """Return the last value of ``key`` and its sequence number; None and 0 without one."""
        try:
            found = self.ask(f"{API}.MSG.GET.{STREAM}", _json(last_by_subj=_subject(key)))
        except StreamError as error:
            if error.code != NO_MESSAGE:
                raise
            return None, 0
        return _value(found), found["message"]["seq"]

    def elements(self) -> list[Any]:
        """Return the values of all messages of the stream; none if the cluster knows no stream."""
        try:
            state = self.ask(f"{API}.INFO.{STREAM}")["state"]
        except StreamError as error:
            if error.code != NO_STREAM:
                raise
            return []
        numbers = range(state["first_seq"], state["last_seq"] + 1)
        values = []
        for start in range(0, len(numbers), AT_ONCE):
            asked = [
                Request(f"{API}.MSG.GET.{STREAM}", _json(seq=number))
                for number in numbers[start : start + AT_ONCE]
            ]
            for reply in self._open().ask_all(asked):
                refused = reply.get("error")
                if refused is None:
                    values.append(_value(reply))
                elif refused.get("err_code") != NO_MESSAGE:
                    raise StreamError(refused)
        return sorted(values)

    def invoke(self, op: Op) -> Completion:
        """Carry out an operation; once a message was sent, an error leaves its effect unknown."""
        sent = False
        try:
            if op.key == "set":
                if op.f == "read":
                    return Completion("ok", self.elements())
                sent = True
                self.ask(_subject("set"), json.dumps(op.value).encode())
                return Completion("ok", op.value)
            (key,) = keys_of(op)
            while True:
                value, number = (None, -1) if op.f == "write" else self.read(key)
                values, completion = carry_out(op, {key: value})
                sent = bool(values)
                if not sent or self._write(key, values[key], number):
                    return completion
                sent = False  # Another client was faster.
        except NotDeliveredError as error:
            return Completion("fail", error=str(error))
        except (OSError, StreamError) as error:
            self.close()
            return Completion("info" if sent else "fail", error=str(error))

    def _write(self, key: Any, value: Any, number: int) -> bool:
        """Write the value unless a newer one than ``number`` is there; -1 writes in any case."""
        header = f"Nats-Expected-Last-Subject-Sequence: {number}"
        try:
            headers = () if number < 0 else (header,)
            self.ask(_subject(key), json.dumps(value).encode(), *headers)
        except StreamError as error:
            if error.code == WRONG_SEQUENCE:
                return False
            raise
        return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class NatsJetStream(PlainSystem):
    """One stream with a replica on each server."""

    name = "nats-jetstream"
    about = "NATS JetStream, built from Go modules"
    default_workload = "set"
    workloads = ()
    verbs = tuple(verb for verb in VERBS if verb not in MANY_KEYS)
    checkers = ("members",)
    options = {  # noqa: RUF012 - as the base class has it
        "version": tuple(GO_SUM),
        "sync": ("default", "always"),
    }

    def artefacts(self) -> Sequence[Artefact]:
        version = self.option("version")
        needs = f"require github.com/nats-io/nats-server/v2 v{version}"
        files = {
            "go.mod": f"module main\n\ngo {GO[version]}\n\n{needs}\n",
            "main.go": SOURCE.read_text(),
        }
        return [GoModule(name="nats", program="nats-server", files=files, go_sum=GO_SUM[version])]

    def processes(self, place: Place, places: Sequence[Place]) -> Sequence[Process]:
        file = f"{place.configuration()}/nats.conf"
        others = ", ".join(f'"nats://{each.ip}:{ROUTES}"' for each in places)
        settings = SETTINGS.format(
            name=place.name,
            ip=place.ip,
            clients=CLIENTS,
            monitor=MONITOR,
            routes=ROUTES,
            others=others,
            folder=place.data(),
            sync="always" if self.option("sync") == "always" else "2m",
        )
        return [
            Process(
                argv=(f"{place.artefact('nats')}/nats-server", "-c", file),
                files={file: settings},
                folders=(place.data(),),
                ports={"clients": CLIENTS, "routes": ROUTES, "monitor": MONITOR},
                ready=PortOpen(CLIENTS),
            )
        ]

    def client(self, place: Place) -> Client:
        return Client(place)

    def unready(self, places: Sequence[Place]) -> str:
        """Make the stream; return why it does not serve on all servers yet."""
        client = Client(places[0])
        settings = {
            "name": STREAM,
            "subjects": [f"{STREAM}.>"],
            "storage": "file",
            "num_replicas": len(places),
        }
        try:
            made = client.ask(f"{API}.CREATE.{STREAM}", json.dumps(settings).encode())
            cluster = made.get("cluster", {})
            late = [each["name"] for each in cluster.get("replicas", ()) if not each["current"]]
        except (OSError, StreamError, NotDeliveredError) as error:
            return f"the stream cannot be made: {error}"
        finally:
            client.close()
        if not cluster.get("leader"):
            return "the stream has no leader"
        return f"replicas are behind: {', '.join(late)}" if late else ""

    def leader(self, places: Sequence[Place]) -> str | None:
        for place in places:
            with contextlib.suppress(OSError, StreamError, NotDeliveredError):
                connection = Connection(place, CLIENTS, 0.2)
                try:
                    found = connection.ask(f"{API}.INFO.{STREAM}")
                finally:
                    connection.close()
                leader = found.get("cluster", {}).get("leader")
                if leader:
                    return str(leader)
        return None

    def inspect(self, place: Place) -> Member:
        """Return the stream as one server has it."""
        http = HTTPConnection(place.ip, MONITOR)
        http.sock = dial((place.ip, MONITOR), TIMEOUT_S, place.gateway)
        try:
            http.request("GET", "/jsz?streams=true")
            told = json.load(http.getresponse())
        finally:
            http.close()
        found = [
            stream["state"]
            for account in told.get("account_details", ())
            for stream in account.get("stream_detail", ())
            if stream["name"] == STREAM
        ]
        (state,) = found or [{"last_seq": 0}]
        names = ("messages", "bytes", "first_seq", "last_ts")
        return Member(state["last_seq"], {name: state.get(name) for name in names})


def _subject(key: Any) -> str:
    return f"{STREAM}.{key}"


def _json(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def _value(reply: dict[str, Any]) -> Any:
    return json.loads(b64decode(reply["message"]["data"]))


SYSTEM = NatsJetStream()
