"""Frames that are nearly right: valid requests of every API with drawn content, then damaged.

Everything depends on the dice and on what :class:`Known` says of the cluster, so a seed repeats a
run frame by frame.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kraftwreck.nodes.metadata.envelope import FORWARDABLE
from kraftwreck.nodes.protocol.apis import API_KEYS, SUPPORTED, encode_request
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.protocol.schema import Field
from kraftwreck.nodes.protocol.schemas import MESSAGES
from kraftwreck.nodes.protocol.versioned import encode_versioned

Body = dict[str, Any]

TOPIC: Final = "__cluster_metadata"
_BITS: Final = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_TEXTS: Final = ("", "t", "é€😀", "x" * 300, "\0", "a.b", "a_b", "metadata.version", "CONTROLLER")
_IMPERSONATED: Final = {"Fetch": ("replica_id", "replica_state"), "FetchSnapshot": ("replica_id",)}
"""Fields that say which voter has stored records: with them a client can commit what nobody has.
Only authentication helps against that (docs/decisions/0030-frames-that-kill.md)."""
STRANGER: Final = 77


@dataclass
class Known:
    """A client's possible knowledge of the cluster."""

    cluster_id: str
    nodes: Sequence[int]
    epoch: int = 0
    leader: int = 1
    end_offset: int = 0
    topics: list[tuple[str, bytes]] = field(default_factory=list)
    directories: Sequence[bytes] = ()


class Drawing:
    """Draws frames and damage from ``dice``."""

    def __init__(self, dice: random.Random, known: Known) -> None:
        self.dice = dice
        self.known = known

    # --- requests ---------------------------------------------------------------------------

    def frame(self, apis: Sequence[str]) -> bytes:
        """Return the bytes of one request, its length included, or of what looks like one."""
        dice = self.dice
        api = dice.choice(apis)
        low, high = SUPPORTED[api]
        version = dice.randint(low, high)
        data = self.request(api, version)
        if dice.random() < 0.4:
            data = self.damaged(data)
        if dice.random() < 0.05:
            header = dice.choice((api, "Produce"))
            key = API_KEYS.get(header, 0).to_bytes(2, "big")
            data = key + dice.choice((-1, 99, high + 1)).to_bytes(2, "big", signed=True) + data[4:]
        length = len(data)
        if dice.random() < 0.03:
            length = dice.choice((0, 7, length - 1, length + 1, 1 << 20, 2**31 - 1, 2**32 - 1))
        return max(0, length).to_bytes(4, "big") + data

    def request(self, api: str, version: int) -> bytes:
        """Return a request without its length."""
        body = self.struct(MESSAGES[f"{api}Request"].fields, version)
        for name in _IMPERSONATED.get(api, ()):
            body.pop(name, None)
        if api == "Fetch":
            body |= {"replica_state": {"replica_id": STRANGER}, "replica_id": STRANGER}
        elif api == "FetchSnapshot":
            body["replica_id"] = STRANGER
        elif api == "Envelope":
            self._fill(body)
        try:
            return encode_request(api, version, self.dice.randrange(1 << 31), "fuzz", body)
        except ProtocolError:  # a version that cannot say a drawn value
            return encode_request(api, version, 1, None, {})

    def _fill(self, body: Body) -> None:
        """Put a request into an envelope."""
        inner = self.dice.choice(sorted(FORWARDABLE))
        low, high = SUPPORTED[inner]
        data = self.request(inner, self.dice.randint(low, high))
        body["request_data"] = self.damaged(data) if self.dice.random() < 0.3 else data
        principal = {"type": "User", "name": "A", "token_authenticated": False}
        body["request_principal"] = encode_versioned("DefaultPrincipalData", 0, principal)
        body["client_host_address"] = self.dice.choice((bytes(4), bytes(16), b"xyz"))

    # --- content ----------------------------------------------------------------------------

    def struct(self, fields: tuple[Field, ...], version: int) -> Body:
        return {f.name: self.value(f, version) for f in fields if version in f.versions}

    def value(self, wanted: Field, version: int) -> Any:
        dice = self.dice
        if version in wanted.nullable and dice.random() < 0.2:
            return None
        if wanted.array:
            # The quorum's requests name one topic and one partition.
            count = 1 if dice.random() < 0.7 else dice.choice((0, 2, 3, 30))
            items = [self.one(wanted, version) for _ in range(count)]
            if items and dice.random() < 0.1:
                items.append(items[0])
            return items
        return self.one(wanted, version)

    def one(self, wanted: Field, version: int) -> Any:
        dice, known = self.dice, self.known
        if wanted.fields is not None:
            return self.struct(wanted.fields, version)
        kind, name = wanted.kind, wanted.name
        if kind == "bool":
            return dice.random() < 0.5
        if kind == "float64":
            return dice.choice((0.0, float("nan"), float("inf"), -1.5))
        if kind == "uint16":
            return dice.choice((0, 1, 9092, 65535))
        if kind == "uuid":
            ids = [topic_id for _, topic_id in known.topics] if "topic" in name else []
            return dice.choice([bytes(16), (1).to_bytes(16, "big"), *known.directories, *ids])
        if kind == "string":
            return self._text(name)
        if kind in _BITS:
            return self._number(name, _BITS[kind])
        return dice.randbytes(dice.choice((0, 1, 20, 300)))

    def _text(self, name: str) -> str:
        dice, known = self.dice, self.known
        if name == "cluster_id" and dice.random() < 0.9:
            return known.cluster_id
        if (name == "topic_name" and dice.random() < 0.7) or dice.random() < 0.1:
            return TOPIC
        if known.topics and dice.random() < 0.4:
            return dice.choice(known.topics)[0]
        if dice.random() < 0.3:
            return f"t{dice.randrange(50)}"
        return dice.choice(_TEXTS)

    def _number(self, name: str, bits: int) -> int:
        dice, known = self.dice, self.known
        most = (1 << bits) - 1
        if dice.random() < 0.15:
            return dice.choice((-1, -most - 1, most, most - 1, 1 << bits - 1, 0))
        if "epoch" in name:
            value = known.epoch + dice.choice((0, 0, 0, 0, 1, -1, 5, 1 << 19))
        elif "offset" in name or "position" in name:
            value = dice.choice((0, known.end_offset, known.end_offset - 1, 1))
        elif name.endswith("_id") or name in ("broker_ids", "replicas", "new_isr"):
            value = dice.choice((*known.nodes, STRANGER, -1))
        elif "partition" in name:
            value = dice.choice((0, 0, 0, 1, -1, 3))
        else:
            value = dice.choice((0, 0, 1, 2, 3, 7, 100, -1))
        return max(-most - 1, min(value, most))

    # --- damage -----------------------------------------------------------------------------

    def damaged(self, data: bytes) -> bytes:
        """Return ``data`` with one to three changes."""
        dice, out = self.dice, bytearray(data)
        for _ in range(dice.randint(1, 3)):
            place = dice.randrange(len(out) + 1)
            match dice.randrange(7):
                case 0 if place < len(out):
                    out[place] ^= 1 << dice.randrange(8)
                case 1:
                    del out[place:]
                case 2:
                    out[place:place] = dice.randbytes(dice.randint(1, 8))
                case 3:
                    out[place : place + 4] = dice.choice(
                        (b"\x7f\xff\xff\xff", b"\xff" * 4, b"\x80\0\0\0", bytes(4))
                    )
                case 4:
                    out[place : place + 5] = b"\xff\xff\xff\xff\x0f"
                case 5:
                    del out[place : place + dice.randint(1, 4)]
                case _:
                    out[place:place] = out[place : place + dice.randint(1, 40)]
        return bytes(out)

    def lie(self, body: Body) -> None:
        """Change one value of a response, but for how far the sender has committed."""
        at: Any = body
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            keys = [key for key in keys if key != "high_watermark"]
            if not keys:
                return
            key = self.dice.choice(keys)
            inner = at[key]
            if isinstance(inner, dict | list) and inner and self.dice.random() < 0.8:
                at = inner
                continue
            at[key] = self._other(inner, str(key))
            return

    def _other(self, value: Any, name: str) -> Any:
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return self._number(name, 31 if "offset" not in name else 63)
        if isinstance(value, str):
            return self._text(name)
        if isinstance(value, bytes):
            return self.damaged(value)
        return self.dice.choice((None, [], {}, value))
