"""Messages with drawn content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraftwreck.nodes.draw import draw
from kraftwreck.nodes.protocol.schema import Field, Message
from kraftwreck.nodes.protocol.schemas import MESSAGES

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
# Times must be ones that a datetime can hold, error codes ones that have a name.
_TIMES = ("timestamp", "append_time", "retention_time")
_TEXTS = ("", "t", "metadata.version", "é\u20ac\U0001f600", "x" * 130)


class Source:
    """Numbers that depend on the key only, one after the other."""

    def __init__(self, *key: object) -> None:
        self.pool = draw(0, *key)
        self.key = key
        self.count = 0

    def below(self, bound: int) -> int:
        if self.pool < 1 << 24:
            self.count += 1
            self.pool = draw(0, *self.key, self.count)
        self.pool, number = divmod(self.pool, bound)
        return number

    def body(self, fields: tuple[Field, ...], version: int) -> dict[str, Any]:
        return {
            field.name: self.value(field, version) for field in fields if version in field.versions
        }

    def value(self, field: Field, version: int) -> Any:
        if version in field.nullable and self.below(4) == 0:
            return None
        # Tagged fields are often left at their default, and then not sent.
        if version in field.tagged and self.below(3) == 0:
            if field.fields is not None and not field.array:
                return defaults(field.fields, version)
            return [] if field.default == () else field.default
        if field.array:
            return [self.one(field, version) for _ in range(self.below(4))]
        return self.one(field, version)

    def one(self, field: Field, version: int) -> Any:
        if field.fields is not None:
            return self.body(field.fields, version)
        if field.name.endswith("error_code"):
            return self.below(80)
        if any(part in field.name for part in _TIMES):
            return self.below(4_000_000_000_000)
        if field.kind in _BITS:
            bits = (2, 7, _BITS[field.kind] - 1)[self.below(3)]
            return self.below(1 << bits) - (1 << bits if self.below(3) == 0 else 0)
        if field.kind == "bool":
            return self.below(2) == 1
        if field.kind == "uint16":
            return self.below(1 << 16)
        if field.kind == "float64":
            return self.below(1 << 40) / 1024
        if field.kind == "uuid":
            return (0, 1, draw(1, self.below(1 << 20)))[self.below(3)].to_bytes(16, "big")
        if field.kind == "string":
            return _TEXTS[self.below(len(_TEXTS))]
        return bytes(self.below(256) for _ in range((0, 3, 140)[self.below(3)]))


def defaults(fields: tuple[Field, ...], version: int) -> dict[str, Any]:
    """The default of a struct, of those fields the version has."""
    present = tuple(field for field in fields if version in field.versions)
    return {field.name: default(field, version) for field in present}


def default(field: Field, version: int | None) -> Any:
    if field.default == ():
        return []
    if field.fields is None or field.default is None:
        return field.default
    return complete({}, field.fields) if version is None else defaults(field.fields, version)


def complete(body: dict[str, Any], fields: tuple[Field, ...]) -> dict[str, Any]:
    """``body`` as decoding gives it: with the defaults of fields that its version lacks."""
    result = {}
    for field in fields:
        value = body[field.name] if field.name in body else default(field, None)
        if field.fields is not None and value is not None:
            inner = field.fields
            value = [complete(v, inner) for v in value] if field.array else complete(value, inner)
        result[field.name] = value
    return result


def draw_message(message: Message, version: int, number: int) -> dict[str, Any]:
    """The ``number``-th body of ``message``, with all fields that ``version`` has."""
    return Source(message.name, version, number).body(message.fields, version)


MESSAGES_WITH_VERSIONS = [
    (message, range(message.valid.low, message.valid.high + 1))
    for message in MESSAGES.values()
    if message.name != "ResponseHeader"
]


class Versions(tuple[int, ...]):
    """The versions of a message that one test goes through."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of ``message`` and ``version`` runs for each message with all its versions; SELECT of
    its module narrows that."""
    if {"message", "version"} <= set(metafunc.fixturenames):
        select = getattr(metafunc.module, "SELECT", {}).get(metafunc.function.__name__)
        chosen = [
            (message, Versions(v for v in versions if select is None or select(message, v)))
            for message, versions in MESSAGES_WITH_VERSIONS
        ]
        chosen = [(message, versions) for message, versions in chosen if versions]
        ids = [message.name for message, _ in chosen]
        metafunc.parametrize(("message", "version"), chosen, ids=ids)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call a test of several versions once for each."""
    versions = pyfuncitem.funcargs.get("version")
    if not isinstance(versions, Versions):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    for version in versions:
        try:
            pyfuncitem.obj(**{**arguments, "version": version})
        except BaseException as error:
            error.add_note(f"version {version}")
            raise
    return True


@pytest.fixture
def completed() -> Callable[[dict[str, Any], tuple[Field, ...]], dict[str, Any]]:
    return complete


@pytest.fixture
def drawn() -> Callable[[Message, int, int], dict[str, Any]]:
    return draw_message


@pytest.fixture
def numbers() -> Callable[..., Callable[[int], int]]:
    return lambda *key: Source(*key).below
