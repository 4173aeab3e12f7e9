"""Existing hosts, from an inventory file (``-c hosts:FILE``).

There are two formats. TOML, if the file's name ends in ``.toml``::

    [[hosts]]
    name = "n1"
    ip = "192.0.2.11"                      # among the hosts
    hostkey = "ssh-ed25519 AAAA..."
    user = "admin"                         # these are optional
    port = 22
    key = "~/.ssh/id_ed25519"
    become = "sudo -n"
    ssh_address = "198.51.100.7"           # from the control node, if it differs
    clock = "machine"                      # its own clock may be changed, if it has one
    gateway = "/run/user/1000/kraftwreck/<cluster>"   # only for namespace hosts of a plain user

or one line per host, with the same names for the other fields::

    n1 admin@192.0.2.11:22 hostkey="ssh-ed25519 AAAA..." key=~/.ssh/id_ed25519

A host without a pinned host key is rejected: a wrong machine would go unnoticed.
"""

from __future__ import annotations

import json
import re
import shlex
import socket
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kraftwreck.harness.clusters.cluster import ClusterError, Host
from kraftwreck.harness.clusters.healing import heal_hosts
from kraftwreck.harness.remote.session import Remote, RemoteError, on_all, parse_host_key
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS

_STRINGS = {"name", "ip", "hostkey", "user", "key", "become", "ssh_address", "gateway", "clock"}
_NUMBERS = {"port", "node_id"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")
_TARGET = re.compile(r"(?:(?P<user>[^@:\s]+)@)?(?P<ip>[^@:\s]+)(?::(?P<port>[0-9]+))?")


def _bad(where: str, what: str) -> ClusterError:
    return ClusterError(f"{where}: {what}", exit_code=BAD_ARGUMENTS)


def load_inventory(path: Path) -> list[Host]:
    """Return the hosts of an inventory file, in its order.

    Raises :class:`ClusterError`: one line with the place, the problem and what to do.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise _bad(str(path), f"cannot be read: {reason}") from error
    entries = _toml_entries(path, text) if path.suffix == ".toml" else _line_entries(path, text)
    if not entries:
        raise _bad(str(path), 'no hosts in it; a line is: n1 user@192.0.2.11 hostkey="..."')
    hosts = [
        _host(where, position, entry, path.parent)
        for position, (where, entry) in enumerate(entries, start=1)
    ]
    for what in ("name", "ip", "node_id"):
        seen: dict[object, str] = {}
        for host, (where, _) in zip(hosts, entries, strict=True):
            value = getattr(host, what)
            if value in seen:
                raise _bad(where, f"{what} {value} is also given in {seen[value]}")
            seen[value] = where.removeprefix(f"{path} ")
    return hosts


def _toml_entries(path: Path, text: str) -> list[tuple[str, dict[str, Any]]]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _bad(str(path), f"not TOML: {error}") from error
    hosts = document.pop("hosts", [])
    if document or not isinstance(hosts, list) or not all(isinstance(h, dict) for h in hosts):
        raise _bad(str(path), "only [[hosts]] tables are allowed")
    return [(f"{path} host {number}", host) for number, host in enumerate(hosts, start=1)]


def _line_entries(path: Path, text: str) -> list[tuple[str, dict[str, Any]]]:
    entries = []
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{path} line {number}"
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise _bad(where, f"cannot be read: {error}".lower()) from error
        if not words:
            continue
        target = _TARGET.fullmatch(words[1]) if len(words) > 1 else None
        if target is None:
            raise _bad(where, "a line begins with: NAME [USER@]ADDRESS[:PORT]")
        entry: dict[str, Any] = {"name": words[0]}
        entry.update({key: value for key, value in target.groupdict().items() if value})
        for word in words[2:]:
            key, equals, value = word.partition("=")
            if not equals:
                raise _bad(where, f"{word!r} is not of the form key=value")
            entry[key] = value
        for key in _NUMBERS & set(entry):
            if not str(entry[key]).isdigit():
                raise _bad(where, f"{key} {entry[key]!r} is not a number")
            entry[key] = int(entry[key])
        entries.append((where, entry))
    return entries


def _host(where: str, position: int, entry: dict[str, Any], base: Path) -> Host:
    unknown = set(entry) - _STRINGS - _NUMBERS
    if unknown:
        known = ", ".join(sorted(_STRINGS | _NUMBERS))
        raise _bad(where, f"{sorted(unknown)[0]!r} is unknown; known fields: {known}")
    for field, value in entry.items():
        wanted = str if field in _STRINGS else int
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise _bad(where, f"{field} must be a {'text' if wanted is str else 'number'}")
    for field in ("name", "ip"):
        if not entry.get(field):
            raise _bad(where, f"{field} is missing")
    name = entry["name"]
    if not _NAME.fullmatch(name):
        raise _bad(where, f"{name!r} is not a host name (letters, digits, hyphens)")
    port = entry.get("port", 22)
    if not 1 <= port <= 65535:
        raise _bad(where, f"port {port} is not between 1 and 65535")
    address = entry.get("ssh_address", "") or entry["ip"]
    if not entry.get("hostkey"):
        raise _bad(
            where,
            f"{name} has no pinned host key; get it with `ssh-keyscan -t ed25519 -p {port} "
            f'{address}`, compare it with the host\'s own, and add hostkey="ssh-ed25519 AAAA..."',
        )
    try:
        parse_host_key(entry["hostkey"])
    except ValueError as error:
        raise _bad(where, f"{name}: {error}") from error
    if entry.get("clock", "") not in ("", "machine"):
        raise _bad(where, f'clock is {entry["clock"]!r}; it must be "machine" or be left out')
    key = None
    if entry.get("key"):
        key = base / Path(entry["key"]).expanduser()
        if not key.is_file():
            raise _bad(where, f"{name}: key file {key} does not exist")
    return Host(
        name=name,
        node_id=entry.get("node_id", position),
        ip=_resolve(where, entry["ip"]),
        host_key=entry["hostkey"],
        port=port,
        user=entry.get("user", "root"),
        key=key,
        become=entry.get("become", ""),
        ssh_address=address if address != entry["ip"] else "",
        clock=entry.get("clock", ""),
        gateway=Path(entry["gateway"]) if entry.get("gateway") else None,
    )


def _resolve(where: str, address: str) -> str:
    """Return the IPv4 address: packets are dropped by address, not by name."""
    try:
        return socket.gethostbyname(address)
    except OSError as error:
        raise _bad(where, f"{address} has no IPv4 address: {error.strerror}") from error


def format_inventory(hosts: Sequence[Host]) -> str:
    """Return hosts as TOML that :func:`load_inventory` reads."""
    tables = []
    for host in hosts:
        fields: dict[str, Any] = {
            "name": host.name,
            "node_id": host.node_id,
            "ip": host.ip,
            "port": host.port,
            "user": host.user,
            "hostkey": host.host_key,
        }
        if host.key is not None:
            fields["key"] = str(host.key.resolve())
        if host.gateway is not None:
            fields["gateway"] = str(host.gateway)
        for key in ("become", "ssh_address", "clock"):
            if getattr(host, key):
                fields[key] = getattr(host, key)
        lines = [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
        tables.append("[[hosts]]\n" + "\n".join(lines) + "\n")
    return "\n".join(tables)


class HostsCluster:
    """The first ``nodes`` hosts of an inventory (None: all). They are up if all respond."""

    name = "hosts"

    def __init__(self, path: Path, nodes: int | None = None) -> None:
        self.hosts = load_inventory(path)
        if nodes is not None:
            if nodes > len(self.hosts):
                raise _bad(
                    str(path),
                    f"{nodes} nodes requested, but it has {len(self.hosts)} hosts: "
                    f"use --nodes {len(self.hosts)}",
                )
            self.hosts = self.hosts[:nodes]

    def up(self) -> list[Host]:
        """Log in to every host and return them; raise an error that names all that fail."""
        check_logins(self.hosts)
        return list(self.hosts)

    def heal(self) -> dict[str, dict[str, object]]:
        """Undo all drops and pauses on the hosts."""
        return heal_hosts(self.hosts)

    def down(self) -> None:
        """Do nothing: the hosts belong to the user."""


def check_logins(hosts: Sequence[Host]) -> None:
    """Log in to every host at once; raise :class:`ClusterError` with those that fail."""
    by_name = {host.name: host for host in hosts}

    def problem(name: str) -> str | None:
        remote = Remote(by_name[name])
        try:
            remote.run(["true"])
            return None
        except RemoteError as error:
            return str(error)
        finally:
            remote.close()

    problems = [text for text in on_all(list(by_name), problem).values() if text]
    if problems:
        raise ClusterError("; ".join(problems))
