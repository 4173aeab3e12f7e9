"""The disks that hold a batch, as only a simulator knows: flushed, also on lost machines."""

from __future__ import annotations

from bisect import bisect_left

from kraftwreck.simulation.disk import Disk
from kraftwreck.simulation.disk_index import batch_epoch
from kraftwreck.simulation.host import Host
from kraftwreck.simulation.world import World
from kraftwreck.systems.kraft.simulated.binding import disk_of


class DurableLogs:
    """The logs of all disks of ``world``, those that were replaced included.

    A voter that fetched and then lost its machine counts: the other replicas exist for such losses.
    """

    def __init__(self, world: World) -> None:
        self._present = {host.id: disk_of(host) for host in world.hosts}
        self._lost: list[tuple[int, Disk]] = []
        world.on_wipe.append(self._wiped)

    def _wiped(self, host: Host) -> None:
        self._lost.append((host.id, self._present[host.id]))
        self._present[host.id] = disk_of(host)

    def holders(self, base: int, epoch: int, last: int) -> set[tuple[int, str]]:
        """Return (node id, directory id) of the disks with the batch, or a snapshot over it."""
        return {
            (node, disk.directory.hex())
            for node, disk in (*self._present.items(), *self._lost)
            if _holds(disk, base, epoch, last)
        }


def _holds(disk: Disk, base: int, epoch: int, last: int) -> bool:
    if base < disk.start:
        return True
    place = bisect_left(disk.ends, last + 1)
    return (
        place < disk.flushed
        and disk.ends[place] == last + 1
        and batch_epoch(disk.log[place]) == epoch
    )
