"""Network faults on messages between nodes, as data.

A fault of the family ``network`` consists of these; a run records them in the ``detail`` of its
:class:`~histories.fault.FaultEvent`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Part = Literal["request", "response", "both"]
Names = Literal["", "silent", "refused"]


class Disturbance(msgspec.Struct, kw_only=True, frozen=True):
    """A network fault on messages from ``senders`` to ``receivers`` (node names).

    It affects only RPCs named in ``apis`` (``Fetch``, ``Vote`` …; empty: all), and of
    those only the ``part``. Times are microseconds. Chances are percents and are drawn for each
    message:

    * ``delay``, ``jitter``: it takes ``delay`` longer, plus a random time up to ``jitter``;
    * ``loss``: a transmission is lost and repeated later, as TCP does; with the chance ``reset``
      its connection is reset instead;
    * ``drop``: it is lost for good, and its connection stays;
    * ``duplicate``: a request arrives once more, up to ``again`` later;
    * ``window``: it is reordered, by up to that time.

    The other fields are about packets, which the simulator does not have:

    * ``corrupt``: a bit of it is flipped in transit; TCP discards such a packet;
    * ``twice``: it arrives twice; TCP discards the second one;
    * ``rate``: the limit in bytes per second; further packets wait (0: no limit);
    * ``port``: only packets from or to this port of a node are affected, "" meaning all;
    * ``names``: DNS requests of the senders get no answer (``silent``) or are ``refused``.
    """

    senders: tuple[str, ...]
    receivers: tuple[str, ...]
    apis: tuple[str, ...] = ()
    part: Part = "both"
    delay: int = 0
    jitter: int = 0
    loss: int = 0
    reset: int = 0
    drop: int = 0
    duplicate: int = 0
    again: int = 0
    window: int = 0
    corrupt: int = 0
    twice: int = 0
    rate: int = 0
    port: str = ""
    names: Names = ""

    @property
    def of_packets(self) -> bool:
        """Whether only real hosts can inject it."""
        return bool(self.corrupt or self.twice or self.rate or self.port or self.names)

    @property
    def of_messages(self) -> bool:
        """Whether it distinguishes whole requests or responses."""
        return bool(self.apis or self.part != "both" or self.duplicate)
