"""Addresses in a configuration: listeners, voters, bootstrap servers (Kafka's notations)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from kraftwreck.nodes.consensus.endpoint import Endpoint

CONTROLLER: Final = "CONTROLLER"
"""The listener of the quorum and the controllers."""
BROKER: Final = "PLAINTEXT"
"""The listener of the brokers' clients."""
WILDCARDS: Final = ("", "0.0.0.0", "::")  # noqa: S104  # compared with, never bound to

_PORT: Final = r"(?P<port>\d{1,5})"
_HOST: Final = r"(?P<host>\[[0-9a-fA-F:.]+\]|[^@,/\s\[\]]*)"
_VOTER: Final = re.compile(rf"(?P<id>\d{{1,10}})@{_HOST}:{_PORT}", re.ASCII)
_LISTENER: Final = re.compile(rf"(?P<name>[A-Z_]+)://{_HOST}:{_PORT}", re.ASCII)
_SERVER: Final = re.compile(rf"{_HOST}:{_PORT}", re.ASCII)


class ConfigError(Exception):
    """The configuration cannot be used; the text is one line that says what to change."""


def _endpoint(match: re.Match[str] | None, *, anywhere: bool = False) -> Endpoint | None:
    """Return the matched address; None if it is invalid, or a wildcard that is not allowed."""
    if match is None or int(match["port"]) > 65535:
        return None
    host = match["host"].removeprefix("[").removesuffix("]")
    if not anywhere and (host in WILDCARDS or int(match["port"]) == 0):
        return None
    return Endpoint(host, int(match["port"]))


def parse_voters(name: str, text: str) -> dict[int, Endpoint]:
    """Read ``id@host:port,...``. Raises :class:`ConfigError`, naming the property."""
    voters: dict[int, Endpoint] = {}
    for part in map(str.strip, text.split(",")):
        match = _VOTER.fullmatch(part)
        endpoint = _endpoint(match)
        if match is None or endpoint is None:
            raise ConfigError(f"{name}: {part!r} is not id@host:port")
        voter = int(match["id"])
        if voter in voters:
            raise ConfigError(f"{name} names node {voter} twice")
        voters[voter] = endpoint
    return voters


def parse_servers(name: str, text: str) -> tuple[Endpoint, ...]:
    """Read ``host:port,...``. Raises :class:`ConfigError`, naming the property."""
    servers: list[Endpoint] = []
    for part in map(str.strip, text.split(",")):
        endpoint = _endpoint(_SERVER.fullmatch(part))
        if endpoint is None:
            raise ConfigError(f"{name}: {part!r} is not host:port")
        if endpoint in servers:
            raise ConfigError(f"{name} names {endpoint} twice")
        servers.append(endpoint)
    return tuple(servers)


def parse_listeners(name: str, text: str, *, bound: bool) -> dict[str, Endpoint]:
    """Read ``NAME://host:port,...``; only ``bound`` ones may be wildcards.

    Raises :class:`ConfigError`, naming the property.
    """
    found: dict[str, Endpoint] = {}
    for part in map(str.strip, text.split(",")):
        match = _LISTENER.fullmatch(part)
        endpoint = _endpoint(match, anywhere=bound)
        if match is None or endpoint is None:
            raise ConfigError(f"{name}: {part!r} is not NAME://host:port")
        if match["name"] in found:
            raise ConfigError(f"{name} has a listener {match['name']} twice")
        found[match["name"]] = endpoint
    return found


def check_listeners(
    listeners: Mapping[str, Endpoint], advertised: Mapping[str, Endpoint], wanted: Collection[str]
) -> None:
    """Raise :class:`ConfigError` unless exactly the listeners ``wanted`` are configured."""
    for name in wanted:
        if name not in listeners:
            raise ConfigError(f"listeners has no {name}://host:port, which process.roles needs")
    for name in listeners:
        if name not in wanted:
            raise ConfigError(f"listeners: process.roles has no use for the listener {name}")
    for name in advertised:
        if name not in listeners:
            raise ConfigError(f"advertised.listeners: {name} is not among listeners")
    ports = [endpoint.port for endpoint in listeners.values()]
    if len(set(ports)) != len(ports):
        raise ConfigError("listeners: each listener needs a port of its own")
