"""The notation message schemas are written in, and its parser.

A message is a head at the left margin and its fields below, indented::

    VoteRequest key=52 valid=0-2 flex=0+
      ClusterId:string[null@0+ def=null]
      Topics:[]TopicData{TopicName:string, Partitions:[]PartitionData{PreVote:bool[v2+ strict]}}

``[]`` before a type is an array, ``{...}`` the fields of a nested struct. Attributes:

* ``vA-B`` or ``vA+``: versions that have the field (all if absent);
* ``null@X``: versions in which it may be null;
* ``tagN@X``: versions in which it is tagged field N;
* ``def=``: its default (otherwise zero, empty or false);
* ``strict``: an encoding without the field must not silently drop a value other than the default.

``flex`` gives the versions with compact lengths and tag sections (KIP-482). Commas and line breaks
between fields are interchangeable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

ZERO_UUID: Final = bytes(16)
NEWEST: Final = 0x7FFF

_HEAD = re.compile(r"(?P<name>\w+) key=(?P<key>-|\d+) valid=(?P<valid>\S+) flex=(?P<flex>\S+)")
_TOKEN = re.compile(
    r"\s*(?:(?P<name>\w+):(?P<array>\[\])?(?P<type>\w+)(?:\[(?P<attributes>[^\]]*)\])?"
    r"(?P<open>\{)?|(?P<close>\})|(?P<comma>,))"
)
_ZEROES: Final[dict[str, Any]] = {
    "bool": False,
    "int8": 0,
    "int16": 0,
    "uint16": 0,
    "int32": 0,
    "int64": 0,
    "float64": 0.0,
    "uuid": ZERO_UUID,
    "string": "",
    "bytes": b"",
    "records": b"",
}


class SchemaError(Exception):
    """A schema text does not follow the notation."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends included; empty when ``high < low``."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high


ALL: Final = Versions(0, NEWEST)
NONE: Final = Versions(0, -1)


@dataclass(frozen=True, slots=True)
class Field:
    """One field. ``kind`` is a primitive type, or the struct's name if ``fields`` is given."""

    name: str
    kind: str
    array: bool
    fields: tuple[Field, ...] | None
    versions: Versions
    nullable: Versions
    tag: int
    tagged: Versions
    default: Any
    strict: bool


class Message:
    """One message: its API key (None for those without), versions and fields.

    Fields given as text are parsed when they are first asked for: a node uses few of all messages,
    and parsing all of them would take a tenth of its start.
    """

    __slots__ = ("_fields", "flexible", "key", "name", "valid")

    def __init__(
        self,
        name: str,
        key: int | None,
        valid: Versions,
        flexible: Versions,
        fields: str | tuple[Field, ...],
    ) -> None:
        self.name = name
        self.key = key
        self.valid = valid
        self.flexible = flexible
        self._fields = fields

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields in order. Raises :class:`SchemaError` naming the bad place."""
        if isinstance(self._fields, str):
            self._fields = _fields(self.name, self._fields)
        return self._fields


def snake_case(name: str) -> str:
    """Return the key under which a decoded body holds the field ``name``."""
    name = name.replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def parse(text: str) -> dict[str, Message]:
    """Parse the heads of all messages of ``text``; raise :class:`SchemaError` naming the bad
    place."""
    messages: dict[str, Message] = {}
    for head, body in _blocks(text):
        match = _HEAD.fullmatch(head)
        if match is None:
            raise SchemaError(f"not the head of a message: {head!r}")
        name = match["name"]
        if name in messages:
            raise SchemaError(f"{name} is defined twice")
        messages[name] = Message(
            name,
            None if match["key"] == "-" else int(match["key"]),
            _versions(match["valid"]),
            _versions(match["flex"]),
            body,
        )
    return messages


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    head, body = "", list[str]()
    for line in text.splitlines():
        if not line.strip():
            continue
        if line[0].isspace():
            body.append(line)
            continue
        if head:
            yield head, "\n".join(body)
        head, body = line.strip(), []
    if head:
        yield head, "\n".join(body)


def _versions(text: str) -> Versions:
    if text.lower() == "none":
        return NONE
    if text.endswith("+"):
        return Versions(int(text[:-1]), NEWEST)
    low, _, high = text.partition("-")
    return Versions(int(low), int(high or low))


def _fields(message: str, body: str) -> tuple[Field, ...]:
    open_structs: list[list[Field]] = [[]]
    pending: list[re.Match[str]] = []
    position = 0
    body = body.rstrip()
    while position < len(body):
        token = _TOKEN.match(body, position)
        if token is None:
            raise SchemaError(f"{message}: cannot read {body[position : position + 40]!r}")
        position = token.end()
        if token["comma"]:
            continue
        if token["close"]:
            if not pending:
                raise SchemaError(f"{message}: '}}' closes nothing")
            inner = tuple(open_structs.pop())
            open_structs[-1].append(_field(message, pending.pop(), inner))
        elif token["open"]:
            pending.append(token)
            open_structs.append([])
        else:
            open_structs[-1].append(_field(message, token, None))
    if pending:
        raise SchemaError(f"{message}: the struct of {pending[-1]['name']} is not closed")
    return tuple(open_structs[0])


def _field(message: str, token: re.Match[str], fields: tuple[Field, ...] | None) -> Field:
    kind, array = token["type"], token["array"] is not None
    if fields is None and kind not in _ZEROES:
        raise SchemaError(f"{message}.{token['name']}: unknown type {kind}")
    versions, nullable, tagged, tag, strict = ALL, NONE, NONE, -1, False
    default: Any = None if array or fields is not None else _ZEROES[kind]
    if array:
        default = ()
    elif fields is not None:
        default = {}
    for attribute in (token["attributes"] or "").split():
        if re.fullmatch(r"v\d+(\+|-\d+)?", attribute):
            versions = _versions(attribute[1:])
        elif attribute.startswith("null@"):
            nullable = _versions(attribute[5:])
        elif attribute.startswith("tag"):
            number, _, span = attribute[3:].partition("@")
            tag, tagged = int(number), _versions(span)
        elif attribute.startswith("def="):
            default = _default(message, kind, attribute[4:])
        elif attribute == "strict":
            strict = True
        else:
            raise SchemaError(f"{message}.{token['name']}: unknown attribute {attribute!r}")
    return Field(
        snake_case(token["name"]),
        kind,
        array,
        fields,
        versions,
        nullable,
        tag,
        tagged,
        default,
        strict,
    )


def _default(message: str, kind: str, text: str) -> Any:
    if text == "null":
        return None
    if kind == "string":
        return text
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    if kind.startswith(("int", "uint")):
        return int(text, 0)
    raise SchemaError(f"{message}: no default {text!r} for a {kind}")
