"""The commands of transcripts. Unknown commands and arguments are errors, never ignored."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.kraft import membership, snapshots
from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.messages import (
    NO_DIRECTORY,
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    VoteRequest,
)
from kraftwreck.nodes.consensus.kraft.replica import Replica
from kraftwreck.nodes.consensus.kraft.voters import LISTENER
from kraftwreck.nodes.log.batch import parse_header
from kraftwreck.nodes.log.snapshots import data_batch, footer_batch
from tests.consensus.disks import directory_of, endpoint_of
from tests.consensus.transcripts import printed
from tests.consensus.transcripts.network import Network

SETTINGS = {each.name for each in dataclasses.fields(QuorumConfig)} - {"voters", "listener"}


class UsageError(Exception):
    """A command is unknown, or not possible now; the message is one line."""


@dataclasses.dataclass(frozen=True)
class Command:
    """A command: its parameters, what it does, and one line of description.

    Parameters: NODE a running node, DOWN one that is down, ID any positive number, NUMBER any
    number from 0, NODE? an optional node, NODES any count, [word] an option, NAME=NUMBER settings.
    """

    parameters: tuple[str, ...]
    run: Callable[..., None]
    about: str


class Session:
    """The network of one transcript, and the arguments of its commands."""

    def __init__(self) -> None:
        self.network: Network | None = None
        self.appended = 0

    @property
    def net(self) -> Network:
        """The network. Raises :class:`UsageError` before add-nodes."""
        if self.network is None:
            raise UsageError("begin with add-nodes")
        return self.network

    def run(self, line: str) -> list[str]:
        """Carry out one command and return what it prints. Raises :class:`UsageError`."""
        name, *words = line.split(" ")
        quiet = name == "quietly"
        if quiet:
            name, *words = words or [""]
        command = COMMANDS.get(name)
        if command is None:
            raise UsageError(f"unknown command {name!r}; known: {', '.join(COMMANDS)}")
        arguments = self._arguments(name, command.parameters, words)
        if self.network is not None:
            self.net.said = []
        try:
            command.run(self, *arguments)
        except (FatalError, RuntimeError) as error:
            raise UsageError(f"{type(error).__name__}: {error}") from error
        lines = [line for _, line in self.net.said]
        if quiet:
            return []
        return lines or ["nothing happens"]

    def _arguments(self, name: str, parameters: Sequence[str], words: list[str]) -> list[Any]:
        left = list(words)
        values: list[Any] = []
        for parameter in parameters:
            if parameter.startswith("["):
                word = parameter.strip("[]")
                values.append(word in left)
                left = [each for each in left if each != word]
            elif parameter == "NAME=NUMBER":
                values.append(dict(self._setting(each) for each in left))
                left = []
            elif parameter == "NODES":
                values.append([self._value("NODE", each) for each in left])
                left = []
            elif left:
                values.append(self._value(parameter.rstrip("?"), left.pop(0)))
            elif parameter.endswith("?"):
                values.append(None)
            else:
                raise UsageError(f"{name} needs {parameter}: {name} {' '.join(parameters)}")
        if left:
            usage = f"{name} {' '.join(parameters)}".rstrip()
            raise UsageError(f"unknown argument {left[0]!r}: {usage}")
        return values

    def _setting(self, word: str) -> tuple[str, int]:
        name, _, value = word.partition("=")
        if not value.removeprefix("-").isdigit():
            raise UsageError(f"unknown argument {word!r}: NAME=NUMBER")
        return name, int(value)

    def _value(self, parameter: str, word: str) -> Any:
        if parameter == "WORD":
            return word
        if not word.isdigit() or str(int(word)) != word:
            raise UsageError(f"unknown argument {word!r}: {parameter} is a number")
        value = int(word)
        if parameter == "NODE" and value not in self.net.replicas:
            raise UsageError(f"no node {value} is running")
        if parameter == "DOWN" and (value in self.net.replicas or value not in self.net.disks):
            raise UsageError(f"no node {value} is down")
        if parameter == "ID" and value == 0:
            raise UsageError("nodes count from 1")
        return value


# --- nodes --------------------------------------------------------------------------------------


def add_nodes(
    session: Session, count: int, dynamic: bool, listening: bool, settings: dict[str, int]
) -> None:
    if session.network is not None:
        raise UsageError("the nodes are there already")
    if unknown := sorted(settings.keys() - SETTINGS):
        raise UsageError(f"unknown argument {unknown[0]!r}: no setting of a quorum")
    session.network = Network(count, dynamic=dynamic, listening=listening, settings=settings)


def add_observer(session: Session, i: int, broker: bool) -> None:
    if i in session.net.disks:
        raise UsageError(f"there is a node {i} already")
    if broker:
        session.net.brokers.add(i)
    session.net.start(i)


def campaign(session: Session, i: int) -> None:
    replica = session.net.replicas[i]
    if replica.state.name not in ("unattached", "follower") or not replica.is_voter:
        raise UsageError(f"node {i} is {replica.state.name} and cannot begin a campaign")
    session.net.expire(i)


def crash(session: Session, i: int, lose_unsynced: bool) -> None:
    session.net.crash(i, lose_unsynced=lose_unsynced)
    session.net.say(f"{i} is down")


def wipe(session: Session, i: int) -> None:
    session.net.wipe(i)
    session.net.say(f"{i} has an empty disk")
    session.net.start(i)


# --- messages and time --------------------------------------------------------------------------


def deliver(session: Session, source: int | None, target: int | None) -> None:
    pair = (source, target)
    count = session.net.deliver(
        lambda m: source is None or (m.source, m.target) == pair, repeat=False
    )
    if count == 0:
        raise UsageError("no such message is in flight")


def stabilize(session: Session, nodes: list[int]) -> None:
    chosen = set(nodes)
    session.net.deliver(lambda m: not chosen or {m.source, m.target} <= chosen, repeat=True)


def drop(session: Session, source: int, target: int) -> None:
    net = session.net
    lost = [m for m in net.in_flight if (m.source, m.target) == (source, target)]
    if not lost:
        raise UsageError(f"nothing is in flight from {source} to {target}")
    net.in_flight = [m for m in net.in_flight if m not in lost]
    net.say(f"{len(lost)} lost")


def drop_all(session: Session) -> None:
    net = session.net
    net.say(f"{len(net.in_flight)} lost")
    net.in_flight.clear()


def cut(session: Session, a: int, b: int | None) -> None:
    net = session.net
    others = [i for i in net.disks if i != a] if b is None else [b]
    net.cuts |= {(a, i) for i in others} | {(i, a) for i in others}
    net.in_flight = [m for m in net.in_flight if (m.source, m.target) not in net.cuts]
    net.say(f"{a} is cut off from {' '.join(map(str, others))}")


def heal(session: Session) -> None:
    session.net.cuts.clear()
    session.net.say("all messages pass again")


def run(session: Session, milliseconds: int) -> None:
    """Only what the nodes do is printed, with the time since the command began."""
    net = session.net
    begun, shown = net.now, []
    net.pass_time(milliseconds, delivering=True)
    for at, line in net.said:
        _, verb, *rest = line.split(" ")
        routine = verb in ("writes", "flushes", "lets") or "is told at once" in line
        if not routine and (verb != "->" or rest[0] == "client"):
            shown.append((at, f"+{(at - begun) // 1000:>5} ms  {line}"))
    net.said = shown


# --- what nodes are asked to do -----------------------------------------------------------------


def append(session: Session, i: int, count: int) -> None:
    values = [f"v{session.appended + k}".encode() for k in range(count)]
    session.appended += count

    def action(replica: Replica) -> None:
        try:
            replica.append_records(replica.epoch, values)
        except ValueError as error:
            session.net.say(f"{i} appends nothing: {error}")

    session.net.handle(i, action)


def add_voter(session: Session, leader: int, i: int) -> None:
    net = session.net
    where = ((LISTENER, endpoint_of(i)),)
    key = (i, directory_of(i, net.disk_number.get(i, 0)))
    net.ask(leader, AddRaftVoterRequest("cluster", 1000, *key, where))


def remove_voter(session: Session, leader: int, i: int) -> None:
    directory = directory_of(i, session.net.disk_number.get(i, 0))
    session.net.ask(leader, RemoveRaftVoterRequest("cluster", i, directory))


def update_voter(session: Session, leader: int, i: int, port: int) -> None:
    directory = directory_of(i, session.net.disk_number.get(i, 0))
    where = ((LISTENER, Endpoint(f"n{i}", port)),)
    epoch = session.net.replicas[leader].epoch
    session.net.ask(leader, UpdateRaftVoterRequest("cluster", epoch, i, directory, where, 0, 1))


def upgrade(session: Session, leader: int, level: int) -> None:
    def action(replica: Replica) -> None:
        fault = membership.upgrade_fault(replica, level)
        if fault is not None:
            session.net.say(f"{leader} refuses: {fault}")
        else:
            membership.upgrade(replica, level)

    session.net.handle(leader, action)


def snapshot(session: Session, i: int) -> None:
    def action(replica: Replica) -> None:
        end = replica.high_watermark
        batch = replica.log.batch_ending_at(end)
        epoch = parse_header(batch).epoch if batch is not None else 0
        head = snapshots.begin(replica, end, epoch) if batch is not None else None
        if head is None:
            return
        offset = parse_header(head).last_offset + 1
        state = session.net.loaded[i]
        body = data_batch(offset, epoch, 0, state) if state else b""
        content = head + body + footer_batch(offset + len(state), epoch, 0)
        snapshots.piece(replica, end, epoch, 0, content)
        snapshots.finish(replica, end, epoch, len(content), 0, "")

    session.net.handle(i, action)


def clean(session: Session, i: int) -> None:
    def action(replica: Replica) -> None:
        config = replica.config
        replica.config = dataclasses.replace(config, retention_bytes=0)
        snapshots.clean(replica)
        replica.config = config

    session.net.handle(i, action)


FORGED: dict[str, Callable[..., Any]] = {
    "vote": lambda s, epoch=0, end=0, last=0: VoteRequest(
        "cluster", -1, epoch, s, directory_of(s), NO_DIRECTORY, last, end, False
    ),
    "pre-vote": lambda s, epoch=0, end=0, last=0: VoteRequest(
        "cluster", -1, epoch, s, directory_of(s), NO_DIRECTORY, last, end, True
    ),
    "begin": lambda s, epoch=0: BeginQuorumEpochRequest("cluster", -1, NO_DIRECTORY, s, epoch),
    "end": lambda s, epoch=0: EndQuorumEpochRequest("cluster", s, epoch, ()),
    "fetch": lambda s, epoch=0, end=0, last=0: FetchRequest(
        "cluster", s, directory_of(s), 0, 1 << 20, epoch, end, last, -1
    ),
    "fetch-snapshot": lambda s, epoch=0, end=0, last=0, position=0: FetchSnapshotRequest(
        "cluster", s, directory_of(s), 1 << 20, epoch, end, last, position
    ),
}


def forge(session: Session, source: int, target: int, kind: str, fields: dict[str, int]) -> None:
    if kind not in FORGED:
        raise UsageError(f"unknown argument {kind!r}: one of {', '.join(FORGED)}")
    try:
        message = FORGED[kind](source, **fields)
    except TypeError as error:
        raise UsageError(f"unknown argument: {str(error).partition(' ')[2]}") from error
    session.net.say(f"{source} -> {target}  {printed.message(message)}")
    session.net.ask(target, message, source)


# --- what is shown ------------------------------------------------------------------------------


def state(session: Session, nodes: list[int]) -> None:
    net = session.net
    for i in nodes or sorted(net.disks):
        replica = net.replicas.get(i)
        net.say(f"{i} is down" if replica is None else printed.state(replica))


def log(session: Session, nodes: list[int]) -> None:
    for i in nodes or sorted(session.net.replicas):
        for line in printed.log(session.net.replicas[i]):
            session.net.say(line)


COMMANDS = {
    "add-nodes": Command(
        ("NUMBER", "[dynamic]", "[listening]", "NAME=NUMBER"), add_nodes, "voters 1 to NUMBER"
    ),
    "add-observer": Command(("ID", "[broker]"), add_observer, "a node that is no voter"),
    "campaign": Command(("NODE",), campaign, "its fetch or election timer runs out"),
    "timeout": Command(("NODE",), lambda s, i: s.net.expire(i), "its timer runs out"),
    "deliver": Command(("ID?", "ID?"), deliver, "what is in flight now, or from one to another"),
    "stabilize": Command(("NODES",), stabilize, "deliver until nothing is in flight"),
    "drop": Command(("ID", "ID"), drop, "lose what is in flight from one to another"),
    "drop-all": Command((), drop_all, "lose all that is in flight"),
    "cut": Command(("ID", "ID?"), cut, "lose all messages of two nodes, or of one with all"),
    "heal": Command((), heal, "end all cuts"),
    "tick": Command(
        ("NUMBER",), lambda s, ms: s.net.pass_time(ms, delivering=False), "milliseconds pass"
    ),
    "run": Command(("NUMBER",), run, "milliseconds pass, and messages arrive at once"),
    "crash": Command(("NODE", "[lose-unsynced]"), crash, "kill it, or cut its power"),
    "restart": Command(("DOWN",), lambda s, i: s.net.start(i), "start it from its disk"),
    "wipe": Command(("DOWN",), wipe, "start it with an empty disk of another directory id"),
    "stop": Command(("NODE",), lambda s, i: s.net.handle(i, lambda r: r.stop()), "shut it down"),
    "append": Command(("NODE", "NUMBER"), append, "a batch of NUMBER records at the leader"),
    "add-voter": Command(("NODE", "ID"), add_voter, "ask NODE to add a voter"),
    "remove-voter": Command(("NODE", "ID"), remove_voter, "ask NODE to remove a voter"),
    "update-voter": Command(("NODE", "ID", "NUMBER"), update_voter, "tell NODE a voter's port"),
    "upgrade": Command(("NODE", "NUMBER"), upgrade, "raise kraft.version"),
    "snapshot": Command(("NODE",), snapshot, "make one of all that is committed"),
    "clean": Command(("NODE",), clean, "remove all snapshots but the last, and the log below"),
    "send": Command(("ID", "NODE", "WORD", "NAME=NUMBER"), forge, "a request of another's making"),
    "state": Command(("NODES",), state, "one line for each node"),
    "log": Command(("NODES",), log, "the batches of each node"),
}
