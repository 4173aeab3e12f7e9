"""The changes of partitions when a broker joins, leaves, or loses a disk.

The functions return partition records only; the record that changes the broker's registration goes
with them in the same batch. Each is a function of the image's head: when two brokers leave, the
records for the first must be applied before those for the second are computed (KAFKA-13173).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kraftwreck.nodes.metadata.change_builder import Election
from kraftwreck.nodes.metadata.changes import Changes
from kraftwreck.nodes.metadata.eligibility import elr_enabled, is_reserved
from kraftwreck.nodes.metadata.image_values import PartitionKey
from kraftwreck.nodes.metadata.operation import Context, Record


def _without_broker(
    context: Context, broker_id: int, keys: Iterable[PartitionKey], *, unclean: bool
) -> list[Record]:
    changes = Changes(context, leaving=broker_id)
    for key in keys:
        builder = changes.builder(key)
        builder.isr = tuple(member for member in builder.isr if member != broker_id)
        if unclean:
            builder.unclean_shutdown = (broker_id,)
        if changes.unclean_allowed(key):
            builder.election = Election.UNCLEAN
        changes.add(key, builder.build())
    return changes.records


def _in_sync(context: Context, broker_id: int) -> list[PartitionKey]:
    image = context.image
    return [key for key in image.partitions_of(broker_id) if broker_id in image.partitions[key].isr]


def changes_for_fenced(context: Context, broker_id: int) -> list[Record]:
    """Remove a broker that is being fenced from every ISR and from every leadership.

    As the last one in an ISR it stays there without eligible leader replicas (KIP-966), and becomes
    one of them with. These records go before the one that fences it.
    """
    return _without_broker(context, broker_id, _in_sync(context, broker_id), unclean=False)


def changes_for_shutdown(context: Context, broker_id: int) -> list[Record]:
    """Remove a broker likewise for a controlled shutdown, or after a clean restart."""
    return changes_for_fenced(context, broker_id)


def changes_for_unclean(context: Context, broker_id: int) -> list[Record]:
    """Remove a broker whose log may have lost its end from every ISR and every ELR.

    Without eligible leader replicas this equals a clean shutdown, as nothing records the loss.
    """
    if not elr_enabled(context.image):
        return changes_for_fenced(context, broker_id)
    keys = list(context.image.partitions_of(broker_id))
    return _without_broker(context, broker_id, keys, unclean=True)


def changes_for_unregistered(context: Context, broker_id: int) -> list[Record]:
    """Remove an unregistered broker from every ISR and every ELR."""
    return changes_for_unclean(context, broker_id)


def changes_for_removed_directories(
    context: Context, broker_id: int, online: Collection[bytes]
) -> list[Record]:
    """Remove a broker's replicas from ISRs if they are in none of its ``online`` directories.

    Replicas without an assigned directory stay.
    """
    partitions = context.image.partitions
    keys = []
    for key in _in_sync(context, broker_id):
        partition = partitions[key]
        where = dict(zip(partition.replicas, partition.directories, strict=True))
        directory = where[broker_id]
        if directory not in online and not is_reserved(directory):
            keys.append(key)
    return _without_broker(context, broker_id, keys, unclean=False)


def changes_for_unfenced(context: Context, broker_id: int) -> list[Record]:
    """Elect leaders for leaderless partitions, now that this broker may lead.

    These records go after the one that unfences it.
    """
    changes = Changes(context, joining=broker_id)
    for key in list(context.image.leaderless()):
        builder = changes.builder(key)
        if changes.unclean_allowed(key):
            builder.election = Election.UNCLEAN
        changes.add(key, builder.build())
    return changes.records
