"""A request of any Kafka API, as clients pass it to a connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class KafkaRequest:
    """``api`` is the schema name (``"CreateTopics"``), ``version`` the request version, ``body``
    the message as a dict with snake_case keys."""

    api: str
    version: int
    body: dict[str, Any]
