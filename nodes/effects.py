"""All events and effects of a node: those of its quorum, of its roles, and of its data plane."""

from __future__ import annotations

from kraftwreck.nodes.consensus import effects as quorum
from kraftwreck.nodes.replication import effects as data
from kraftwreck.nodes.replication import events as data_events

NodeEvent = quorum.Event | data_events.FromShell
NodeEffect = quorum.Effect | data.Effect
