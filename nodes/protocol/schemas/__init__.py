"""All message schemas by name. Texts are in modules, so that they load from inside a zip.

Left out are the four RPCs by which a controller drove brokers under ZooKeeper (LeaderAndIsr,
StopReplica, UpdateMetadata, ControlledShutdown; keys 4 to 7): no KRaft node sends or serves them.
"""

from __future__ import annotations

from typing import Final

from kraftwreck.nodes.protocol.schema import Message, parse
from kraftwreck.nodes.protocol.schemas import (
    admin,
    control,
    controller,
    data,
    groups,
    headers,
    metadata,
    offsets,
    quorum,
    raft,
)

_MODULES = (headers, quorum, raft, controller, admin, data, groups, offsets, control, metadata)

MESSAGES: Final[dict[str, Message]] = parse("\n".join(module.TEXT for module in _MODULES))
RECORDS: Final[dict[str, Message]] = parse(metadata.TEXT)
