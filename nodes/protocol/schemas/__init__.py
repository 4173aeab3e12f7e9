"""All message schemas by name. Texts live in modules, so that they load from inside a zip."""

from __future__ import annotations

from typing import Final

from nodes.protocol.schema import Message, parse
from nodes.protocol.schemas import (
    admin,
    control,
    controller,
    data,
    groups,
    headers,
    metadata,
    quorum,
)

_MODULES = (headers, quorum, controller, admin, data, groups, control, metadata)

MESSAGES: Final[dict[str, Message]] = parse("\n".join(module.TEXT for module in _MODULES))
RECORDS: Final[dict[str, Message]] = parse(metadata.TEXT)
