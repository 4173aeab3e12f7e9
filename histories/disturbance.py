"""What the network may be made to do to messages between nodes, as data.

A fault of the family ``network`` comes down to these; a run records them in the ``detail``
of its :class:`~histories.fault.FaultEvent`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Part = Literal["request", "response", "both"]
Port = Literal["", "controller", "broker"]
Names = Literal["", "silent", "refused"]


class Disturbance(msgspec.Struct, kw_only=True, frozen=True):
    """What messages from one of ``senders`` to one of ``receivers`` (node names) suffer.

    Only RPCs named in ``apis`` are meant (``Fetch``, ``BrokerHeartbeat`` …), empty meaning
    all, and of those the ``part``. Times are microseconds. Chances are percents and are drawn
    for each message:

    * ``delay``, ``jitter``: it takes ``delay`` longer, and anything up to ``jitter`` more;
    * ``loss``: a transmission is lost and repeated later, as TCP does; with the chance
      ``reset`` its connection is reset instead;
    * ``drop``: it is swallowed, and its connection stays;
    * ``duplicate``: a quorum request arrives once more, up to ``again`` later;
    * ``window``: it loses its place among the others, by up to so much.

    The rest is about packets, which the simulator does not have:

    * ``corrupt``: a bit of it changes on the way; TCP throws such a packet away;
    * ``twice``: it arrives twice; TCP throws the second one away;
    * ``rate``: so many bytes a second pass, and others wait (0: no limit);
    * ``port``: only packets from or to this port of a node are meant, "" meaning all;
    * ``names``: not packets, but senders' questions for names (DNS): they get no answer
      (``silent``) or are ``refused``.
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
    port: Port = ""
    names: Names = ""

    @property
    def of_packets(self) -> bool:
        """Whether only real hosts can do it."""
        return bool(self.corrupt or self.twice or self.rate or self.port or self.names)

    @property
    def of_messages(self) -> bool:
        """Whether whole requests or answers must be told apart to do it."""
        return bool(self.apis or self.part != "both" or self.duplicate)
