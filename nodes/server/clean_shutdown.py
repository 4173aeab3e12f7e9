"""``.kafka_cleanshutdown``: the broker epoch of a process that stopped cleanly.

Kafka's format. It is valid for one start only: it is read and removed, durably, before anything
else is done. So a crash is never taken for a clean stop.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from kraftwreck.nodes.log.media import PLAIN, Media

NAME: Final = ".kafka_cleanshutdown"
UNCLEAN: Final = -1


def take(directory: Path, media: Media = PLAIN) -> int:
    """Remove the file and return the epoch in it, -1 if there is none. Raises OSError."""
    path = directory / NAME
    try:
        content = media.read(path)
    except FileNotFoundError:
        return UNCLEAN
    media.unlink(path)
    media.fsync_directory(directory)
    try:
        epoch = json.loads(content)["brokerEpoch"]
    except (ValueError, KeyError, TypeError):
        return UNCLEAN
    return epoch if isinstance(epoch, int) and epoch >= 0 else UNCLEAN


def write(directory: Path, broker_epoch: int, media: Media = PLAIN) -> None:
    """Store ``broker_epoch`` for the next start, durably. Raises OSError."""
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    media.replace(directory / NAME, content.encode())
