"""One run of three whole processes over sockets: start, clients and faults, heal, read, stop."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.server.exit_status import DISK_FAILED, STOPPED
from kraftwreck.simulation.instant_loop import StuckError
from kraftwreck.systems.kraft.sockets.clients import LostError
from kraftwreck.systems.kraft.sockets.machines import IDS, Machines, host_of
from kraftwreck.systems.kraft.sockets.network import CLIENT, Network, Wire
from kraftwreck.systems.kraft.sockets.traffic import ALL, PARTITIONS, TOPIC, WAIT_S, Traffic

BEGIN_S: Final = 1_000.0
LOADED_S: Final = 10.0
"""How long clients send and faults happen."""
SERVES_S: Final = 40.0
"""How long the cluster may take until it serves, after a start or a heal."""
STOPPED_S: Final = 20.0
"""How long processes may take to stop after a SIGTERM to all of them."""
BREAKING: Final = 0.03
"""How often a packet between processes is the last one of its connection."""
QUIET_S: Final = 2.0
LOOK_S: Final = 0.25
LAST_RECORDS: Final = 10
MOST_SAID: Final = 5
"""So many failures of a run are reported."""

EXPECTED: Final = (
    "listens on",
    "the controller refuses this broker",
    "no answer from the others within",
    "a Produce with acks 0 failed",
    "the disk failed",
    "cannot close the logs of partitions",
)
"""Lines with these may come on stderr during such a run."""


class _OverError(Exception):
    """The run cannot continue; the reason is among its failures."""


class SocketRun:
    """One run; all choices depend on ``seed``."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.failures: list[str] = []
        self._network = Network(seed, BEGIN_S)
        self._machines = Machines(self._network, directory, seed)
        self.traffic = Traffic(self._network, self._machines, self._wrong)
        self._dice = self._network.dice
        self._directory = directory
        self._broken: int | None = None
        """The node whose disk breaks at the end."""

    def _wrong(self, text: str) -> None:
        if len(self.failures) < MOST_SAID:
            self.failures.append(f"{text} (at {self._network.time() - BEGIN_S:.3f} s)")

    def play(self) -> None:
        """Run to the end."""
        try:
            self._network.run_until_complete(self._play())
        except _OverError:
            pass
        except StuckError as error:
            self._wrong(str(error))
        finally:
            self._end()

    async def _play(self) -> None:
        for node_id in IDS:
            self._machines.start(node_id)
            await self.traffic.rest(0.5)
        await self._serves(topic=False)
        await self._create_topic()
        await self._serves(topic=True)
        traffic = self.traffic
        traffic.until = self._network.time() + LOADED_S
        work = [traffic.produce(), traffic.produce(), traffic.produce()]
        work += [traffic.consume(), traffic.consume(), traffic.pipeline(), traffic.create()]
        self._network.breaking = BREAKING
        await asyncio.gather(*work, self._faults())
        self._network.breaking = 0.0
        self._network.blocked.clear()
        for node_id in IDS:
            self._machines.start(node_id)
        await self._serves(topic=True)
        await self._produce_last()
        await self._read_all()
        await asyncio.sleep(QUIET_S)
        self._judge_memory()
        await self._stop_all()

    # --- phases -----------------------------------------------------------------------------

    async def _serves(self, *, topic: bool) -> None:
        """Wait until all brokers know each other and all replicas are in sync.

        Raises _OverError.
        """
        limit = self._network.time() + SERVES_S
        waits = ""
        while self._network.time() < limit:
            waits = await self._missing(topic)
            if not waits:
                return
            await asyncio.sleep(LOOK_S)
        self._wrong(f"the cluster does not serve within {SERVES_S:.0f} s: {waits}")
        raise _OverError

    async def _missing(self, topic: bool) -> str:
        """Return what keeps the cluster from serving, empty for nothing."""
        if len(self._machines.running) < len(IDS):
            return f"only {sorted(self._machines.running)} run"
        for node_id in IDS:
            try:
                client = await self.traffic.connect(node_id)
            except LostError:
                return f"node {node_id} does not listen"
            try:
                body = await self.traffic.metadata(client)
            except LostError:
                return f"node {node_id} does not answer"
            finally:
                client.close()
            known = sorted(broker["node_id"] for broker in body["brokers"])
            if known != list(IDS):
                return f"node {node_id} knows the brokers {known}"
            parts = [
                part
                for each in body["topics"]
                if each["name"] == TOPIC
                for part in each["partitions"]
            ]
            if topic and (len(parts) < PARTITIONS or any(len(p["isr_nodes"]) < 3 for p in parts)):
                shown = {p["partition_index"]: sorted(p["isr_nodes"]) for p in parts}
                return f"node {node_id} knows the ISRs {shown}"
        return ""

    async def _create_topic(self) -> None:
        code = -1
        for _ in range(10):
            try:
                client = await self.traffic.connect()
                code = await self.traffic.created(client, TOPIC, PARTITIONS, len(IDS))
                client.close()
            except LostError:
                continue
            if code in (errors.NONE, errors.TOPIC_ALREADY_EXISTS):
                return
            await asyncio.sleep(LOOK_S)
        self._wrong(f"a topic cannot be created: {errors.error_name(code)}")
        raise _OverError

    async def _faults(self) -> None:
        """Cut, hold back, kill and stop, one thing after the other."""
        traffic = self.traffic
        while traffic.runs:
            await asyncio.sleep(0.5)
            await traffic.rest(1.5)
            first, second = self._dice.sample(IDS, 2)
            pair = host_of(first), host_of(second)
            match self._dice.randrange(5):
                case 0:
                    self._network.blocked |= {pair, pair[::-1]}
                    await traffic.rest(3.0)
                    self._network.blocked.clear()
                case 1:
                    self._network.blocked.add(pair)
                    await traffic.rest(3.0)
                    self._network.blocked.clear()
                case 2:
                    self._network.cut(partial(_joins, pair))
                case 3:
                    await self._machines.kill(first)
                    await traffic.rest(2.0)
                    self._machines.start(first)
                case _:
                    await self._terminate(first)
                    await traffic.rest(1.0)
                    self._machines.start(first)

    async def _terminate(self, node_id: int) -> None:
        self._machines.terminate(node_id)
        limit = self._network.time() + STOPPED_S
        while node_id in self._machines.running:
            await asyncio.sleep(LOOK_S)
            if self._network.time() > limit:
                self._wrong(f"node {node_id} did not stop within {STOPPED_S:.0f} s of SIGTERM")
                raise _OverError

    async def _produce_last(self) -> None:
        """Each partition must take records now. Raises _OverError."""
        for partition in range(PARTITIONS):
            takes = partial(self._takes, partition)
            await self._at_last(takes, f"partition {partition} takes no records after the heal")

    async def _at_last(self, attempt: Callable[[], Awaitable[bool]], otherwise: str) -> None:
        """Repeat ``attempt`` until it succeeds; after a while ``otherwise`` is wrong.

        Raises _OverError.
        """
        limit = self._network.time() + SERVES_S
        while not await attempt():
            if self._network.time() > limit:
                self._wrong(otherwise)
                raise _OverError
            await asyncio.sleep(LOOK_S)

    async def _takes(self, partition: int) -> bool:
        """Send a few records; return whether all replicas have them."""
        traffic = self.traffic
        try:
            client = await traffic.at_leader(partition)
            sent = []
            for _ in range(LAST_RECORDS):
                number, version, body = traffic.batch(partition, ALL)
                sent.append((number, client.send("Produce", version, body)))
            offsets = [
                await traffic.stored(client, partition, number, ALL, answer)
                for number, answer in sent
            ]
            client.close()
        except LostError:
            return False
        return None not in offsets

    async def _read_all(self) -> None:
        """Read all partitions, and compare them with what was acknowledged and read before."""
        found: dict[tuple[int, int], int] = {}
        for partition in range(PARTITIONS):
            reads = partial(self._reads, partition, found)
            await self._at_last(reads, f"partition {partition} cannot be read after the heal")
        for number, place in sorted(self.traffic.acknowledged.items()):
            if found.get(place) != number:
                at = found.get(place)
                self._wrong(f"record {number}, acknowledged at {place}, is lost: there is {at}")
        for place, number in sorted(self.traffic.read.items()):
            if found.get(place) != number:
                self._wrong(f"record {number} was read at {place}, where {found.get(place)} is")

    async def _reads(self, partition: int, found: dict[tuple[int, int], int]) -> bool:
        """Read a partition to its end; return whether its leader has let us."""
        traffic = self.traffic
        try:
            client = await traffic.at_leader(partition)
            position = 0
            while True:
                most = self._dice.choice((1, 5_000, 1_000_000))
                asked = traffic.fetch({partition: position}, most, 0, -1)
                client.pause()
                answer = client.send("Fetch", traffic.version("Fetch"), asked)
                await traffic.rest(0.2)
                client.resume()
                body = await traffic.answered(client, "Fetch", answer, WAIT_S)
                [[part]] = [topic["partitions"] for topic in body["responses"]]
                if part["error_code"] != errors.NONE:
                    client.close()
                    return False
                if position >= part["high_watermark"]:
                    client.close()
                    return True
                begin = position
                for offset, number in traffic.records(part["records"] or b""):
                    found[partition, offset] = number
                    position = offset + 1
                if position == begin:
                    self._wrong(f"a fetch at {begin} of {part['high_watermark']} has no record")
                    raise _OverError
        except LostError:
            return False

    def _judge_memory(self) -> None:
        """No connection whose requests are answered may hold anything."""
        for wire in self._network.wires:
            end = wire.accepted
            if wire.source == CLIENT and end is not None and end.bytes_held:
                self._wrong(
                    f"{wire.target[0]} holds {end.bytes_held} bytes for a client without requests"
                )

    async def _stop_all(self) -> None:
        """Stop all processes; each must end in order, and leave no task.

        One of them may find that it cannot make its records durable.
        """
        self._broken = self._dice.choice((None, *IDS))
        if self._broken is not None:
            self._machines.break_disk(self._broken)
        for node_id in IDS:
            self._machines.terminate(node_id)
        for node_id in sorted(await self._machines.stopped(STOPPED_S)):
            self._wrong(f"node {node_id} did not stop within {STOPPED_S:.0f} s of SIGTERM")
        if self._broken is not None and self._machines.has_mark(self._broken):
            self._wrong(f"node {self._broken} leaves the mark of a clean stop on a broken disk")
        await asyncio.sleep(QUIET_S)
        own = {asyncio.current_task(), *self._network.carriers}
        left = [task for task in asyncio.all_tasks() if task not in own]
        if left and not self._machines.running:
            self._wrong(f"{len(left)} tasks are left of processes that have ended")

    def _end(self) -> None:
        """Judge how the processes ended, and close the loop."""
        for node_id, status in self._machines.ended:
            if status != STOPPED and (node_id, status) != (self._broken, DISK_FAILED):
                self._wrong(f"the process of node {node_id} ended: {status!r}")
        for task in asyncio.all_tasks(self._network):
            task.cancel()
        with suppress(StuckError):
            self._network.run_until_complete(asyncio.sleep(QUIET_S))
        self._network.close()


def failures_over_sockets(seed: int) -> list[str]:
    """Play the run of ``seed``; return what was wrong in it, one line each, the first first."""
    before = _left()
    with tempfile.TemporaryDirectory() as directory, _stderr() as said:
        run = SocketRun(seed, Path(directory))
        run.play()
        failures = run.failures
        said.seek(0)
        for line in said.read().splitlines():
            if not any(each in line for each in EXPECTED):
                failures.append(f"a process said: {line}")
    del run
    if not failures and _left() - before:
        gc.collect()
        if left := sorted((_left() - before).elements()):
            failures.append(f"still open at the end: {', '.join(left)}")
    return failures[:MOST_SAID]


def _left() -> Counter[str]:
    """Return the names of the sockets of this process, and of its files that are only read.

    A log has its files open for writing, and a process that is killed closes none of them.
    """
    found = Counter[str]()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            name = str(descriptor.readlink())
            detail = Path(f"/proc/self/fdinfo/{descriptor.name}").read_text()
            flags = int(detail.partition("flags:")[2].split()[0], 8)
            if name.startswith("socket:"):
                found["a socket"] += 1
            elif name.startswith("/") and flags & os.O_ACCMODE == os.O_RDONLY:
                found[Path(name).name] += 1
    return found


@contextmanager
def _stderr() -> Iterator[TextIO]:
    """Write what processes say into a file, and yield it."""
    with tempfile.TemporaryFile("w+") as file:
        saved, sys.stderr = sys.stderr, file
        try:
            yield file
        finally:
            sys.stderr = saved


def _joins(pair: tuple[str, str], wire: Wire) -> bool:
    return {wire.source, wire.target[0]} == set(pair)
