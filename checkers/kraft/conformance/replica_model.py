"""The next states of one replica: the transitions of KIP-595, 853 and 996.

A replica is its position: state, epoch, leader, vote, log end and high watermark. Each kind of
event may change some of these, in some ways and some states, and leaves the rest unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraftwreck.histories.trace import TraceEvent

NONE: Final = -1
NO_DIRECTORY: Final = bytes(16).hex()
"""The directory of voters that are known by id alone."""
LEADER, FOLLOWER, RESIGNED = "leader", "follower", "resigned"
UNATTACHED, PROSPECTIVE, CANDIDATE = "unattached", "prospective", "candidate"
STATES: Final = frozenset((LEADER, FOLLOWER, RESIGNED, UNATTACHED, PROSPECTIVE, CANDIDATE))

FIELDS: Final = ("state", "epoch", "leader", "voted", "leo", "hw")
MAY_CHANGE: Final[dict[str, frozenset[str]]] = {
    "start": frozenset(FIELDS),
    "state": frozenset(("state", "epoch", "leader", "voted", "hw")),
    "grant": frozenset(("voted",)),
    "append": frozenset(("leo",)),
    "truncate": frozenset(("leo",)),
    "install": frozenset(("leo",)),
    "hw": frozenset(("hw",)),
}
"""The fields that each kind of event may change; all other kinds change nothing."""

SAME_EPOCH: Final = frozenset(
    (
        (UNATTACHED, FOLLOWER),
        (UNATTACHED, PROSPECTIVE),
        (PROSPECTIVE, FOLLOWER),
        (PROSPECTIVE, UNATTACHED),
        (CANDIDATE, FOLLOWER),
        (CANDIDATE, PROSPECTIVE),
        (CANDIDATE, LEADER),
        (FOLLOWER, PROSPECTIVE),
        (FOLLOWER, FOLLOWER),
        (LEADER, RESIGNED),
    )
)
"""Changes of state that keep the epoch (the table of KIP-595 with KIP-996's Prospective)."""

Rule = Callable[["ReplicaModel", TraceEvent, TraceEvent], "str | None"]


class ReplicaModel:
    """One node over all its incarnations: :meth:`step` judges, :meth:`accept` continues."""

    def __init__(self, name: str, node_id: int) -> None:
        self.name = name
        self.id = node_id
        self.last: TraceEvent | None = None
        self.gaps = 0
        self.directory: str | None = None
        self.voters: frozenset[int] | None = None
        """The voters of the set in force, None if unknown."""
        self.votes = True
        """Whether the node believes that it is one of them."""
        self.epoch_start = NONE
        """The first offset of the epoch it leads."""
        self.delivered: int | None = None
        """The offset it delivers next to its state machine, None if unknown."""
        self.installed = NONE
        """The end of the last snapshot it installed; this is committed whatever its source."""
        self.loaded = False
        """Whether this process has loaded a snapshot."""
        self.fetched = False
        """Whether it has appended from the leader that it follows."""

    def step(self, event: TraceEvent) -> str | None:
        """Return why the model does not accept ``event``, None if it does."""
        last = self.last
        if event.state not in STATES:
            return f"there is no state {event.state!r}"
        if event.hw > event.leo:
            return f"its high watermark {event.hw} is beyond the end {event.leo} of its log"
        if event.kind == "start":
            return self._start(event)
        if last is None:
            return None if event.seq else f"its first event is {event.kind!r}, not a start"
        if event.incarnation != last.incarnation or event.seq != last.seq + 1:
            self.gaps += 1
            return None
        frame = _frame(last, event)
        if frame is not None:
            return frame
        rule = _RULES.get(event.kind)
        return rule(self, last, event) if rule is not None else None

    def accept(self, event: TraceEvent) -> None:
        """Continue from ``event``, whether it was legal or not."""
        kind, detail = event.kind, event.detail
        self.last = event
        if kind == "start":
            self.directory = detail.get("directory")
            self.delivered, self.voters, self.fetched, self.loaded = None, None, False, False
            self.votes = True
        elif kind == "state":
            self.fetched = False
        elif kind == "append":
            self.fetched = True
        elif kind == "commit":
            self.delivered = detail["last"] + 1
        elif kind in ("load", "install"):
            # An installed snapshot is delivered as a whole; a loaded one is delivered now. More
            # may be delivered by then: a single voter begins before it has loaded.
            since = self.delivered if kind == "load" and self.delivered is not None else NONE
            self.delivered = max(since, detail["end"])
            self.loaded |= kind == "load"
            if kind == "install":
                self.installed = detail["end"]
        elif kind == "voters":
            self.voters = frozenset(voter for voter, _ in detail["voters"])
            self.votes = any(
                voter == self.id and directory in (self.directory, NO_DIRECTORY)
                for voter, directory in detail["voters"]
            )
        elif kind == "elected":
            self.epoch_start = detail["epoch_start"]

    # --- starts -----------------------------------------------------------------------

    def _start(self, event: TraceEvent) -> str | None:
        """KIP-595: a process continues with the epoch, vote and leader on its disk."""
        last = self.last
        if event.seq != 0:
            return f"it starts with event number {event.seq} of its process"
        if event.hw != NONE:
            return f"it starts with a high watermark, {event.hw}: that is learned, not stored"
        if event.state in (LEADER, PROSPECTIVE):
            return f"it starts as {event.state}"
        if event.state == CANDIDATE and event.voted != self.id:
            return f"it starts as candidate with its vote given to {event.voted}"
        if event.state == FOLLOWER and event.leader in (NONE, self.id):
            return f"it starts as a follower of {event.leader}"
        if last is None or event.detail.get("directory") != self.directory:
            return None
        if event.incarnation <= last.incarnation:
            return f"process {event.incarnation} starts after process {last.incarnation}"
        if event.epoch < last.epoch:
            return f"it starts in epoch {event.epoch}, and was in {last.epoch} before"
        if event.epoch > last.epoch:
            return None
        if last.state == LEADER and event.state != RESIGNED:
            return f"it led epoch {last.epoch}, and starts in it as {event.state}"
        if last.voted != NONE and event.voted != last.voted and event.state != RESIGNED:
            return (
                f"it voted for {last.voted} in epoch {last.epoch}, and starts with its vote "
                f"given to {event.voted}"
            )
        if last.state == FOLLOWER and event.leader not in (NONE, last.leader):
            return (
                f"it followed {last.leader} in epoch {last.epoch}, and starts with {event.leader}"
            )
        return None

    # --- changes of state -------------------------------------------------------------

    def _state(self, last: TraceEvent, event: TraceEvent) -> str | None:
        told = event.detail.get("from")
        if told is not None and told != last.state:
            return f"it reports that it was {told}, but was {last.state}"
        move = f"from {last.state} of epoch {last.epoch} to {event.state} of epoch {event.epoch}"
        if event.epoch < last.epoch:
            return f"{move}: epochs never go back"
        if event.state == LEADER:
            return self._lead(last, event, move)
        if event.hw != last.hw:
            return f"{move}: the high watermark goes from {last.hw} to {event.hw}"
        if event.epoch > last.epoch:
            return self._new_epoch(last, event, move)
        if (last.state, event.state) not in SAME_EPOCH and not self._alone(last, event):
            return f"{move}: there is no such transition"
        if event.state == RESIGNED:
            return None
        if event.voted != last.voted:
            return f"{move}: its vote for {last.voted} becomes one for {event.voted}"
        if event.leader == self.id:
            return f"{move}: it is its own leader"
        if event.leader != last.leader and not (event.state == FOLLOWER and last.leader == NONE):
            return f"{move}: its leader changes from {last.leader} to {event.leader}"
        if event.state == FOLLOWER and event.leader == NONE:
            return f"{move}: it follows no leader"
        # An observer may know the leader by id alone, without an address to fetch from.
        gave_up = (last.state, event.state) == (PROSPECTIVE, UNATTACHED)
        if gave_up and event.leader in (self.voters or ()):
            return f"{move}: it knows the leader, {event.leader}, and does not follow it again"
        return None

    def _alone(self, last: TraceEvent, event: TraceEvent) -> bool:
        """Whether the only voter campaigns again at once."""
        return (last.state, event.state) == (RESIGNED, PROSPECTIVE) and (
            self.voters is not None and len(self.voters) == 1
        )

    def _lead(self, last: TraceEvent, event: TraceEvent, move: str) -> str | None:
        if last.state != CANDIDATE or event.epoch != last.epoch:
            return f"{move}: only a candidate becomes leader, of its own epoch"
        if event.leader != self.id or event.hw != NONE:
            return f"{move}: with leader {event.leader} and high watermark {event.hw}"
        if event.voted != NONE:
            return f"{move}: a leader keeps no vote, but this one has {event.voted}"
        return None

    def _new_epoch(self, last: TraceEvent, event: TraceEvent, move: str) -> str | None:
        if event.state == CANDIDATE:
            if last.state != PROSPECTIVE or event.epoch != last.epoch + 1:
                return f"{move}: only a winner of pre-votes becomes candidate of the next epoch"
            if event.voted != self.id or event.leader != NONE:
                return f"{move}: with its vote for {event.voted} and leader {event.leader}"
            return None
        if event.state not in (UNATTACHED, FOLLOWER):
            return f"{move}: there is no such transition"
        if event.voted != NONE:
            return f"{move}: a vote for {event.voted} in an epoch it has just heard of"
        if event.leader == self.id:
            return f"{move}: it is its own leader"
        if event.state == FOLLOWER and event.leader == NONE:
            return f"{move}: it follows no leader"
        return None

    def _elected(self, last: TraceEvent, event: TraceEvent) -> str | None:
        detail = event.detail
        voters, granting = set(detail["voters"]), set(detail["granting"])
        if event.state != LEADER:
            return f"elected as {event.state}"
        if self.id not in voters or self.id not in granting:
            return f"elected with the votes {sorted(granting)} of {sorted(voters)}"
        if not granting <= voters or 2 * len(granting) <= len(voters):
            return f"elected by {sorted(granting)} of {sorted(voters)}"
        if detail["epoch_start"] != event.leo:
            return f"its epoch starts at {detail['epoch_start']}, its log ends at {event.leo}"
        return None

    def _grant(self, last: TraceEvent, event: TraceEvent) -> str | None:
        detail = event.detail
        candidate = detail["candidate"]
        theirs = detail["candidate_last_epoch"], detail["candidate_last_offset"]
        own = detail["last_epoch"], detail["last_offset"]
        what = "pre-vote" if detail["pre"] else "vote"
        say = f"a {what} for {candidate} in epoch {detail['epoch']} as {event.state}"
        if detail["epoch"] != event.epoch:
            return f"{say} of epoch {event.epoch}"
        if detail["last_offset"] != event.leo:
            return f"{say}: it compares with {detail['last_offset']}, its log ends at {event.leo}"
        if candidate == self.id:
            return f"{say}: it needs none from itself"
        if detail["pre"]:
            # An observer stays a follower when its leader is silent, and grants then.
            heard = event.state == FOLLOWER and self.fetched and self.votes
            if event.state == LEADER or heard:
                return f"{say}, whose leader is alive"
            if event.voted != last.voted:
                return f"{say} takes its vote"
            return None if theirs >= own else f"{say}, whose log is older"
        if event.state not in (UNATTACHED, PROSPECTIVE):
            return say
        if event.voted != candidate or last.voted not in (NONE, candidate):
            return f"{say}: its vote goes from {last.voted} to {event.voted}"
        if last.voted == candidate:
            return None
        if last.leader != NONE:
            return f"{say}, although {last.leader} leads"
        return None if theirs >= own else f"{say}, whose log is older"

    def _stop(self, last: TraceEvent, event: TraceEvent) -> str | None:
        """KIP-595: a leader that shuts down stops once it knows a successor, and informs the other
        nodes until then. A shutdown that ends by timeout leaves no event."""
        alone = self.voters is None or not self.votes or len(self.voters) < 2
        if event.state == RESIGNED and not alone and "reason" not in event.detail:
            return "it stops as resigned, but knows no successor yet"
        return None

    # --- the log ----------------------------------------------------------------------

    def _append(self, last: TraceEvent, event: TraceEvent) -> str | None:
        detail = event.detail
        if detail["base"] != last.leo or event.leo != detail["last"] + 1:
            return (
                f"its log end moves from {last.leo} to {event.leo} by offsets {detail['base']} to "
                f"{detail['last']}"
            )
        if detail["by"] != event.state:
            return f"it appends as {detail['by']}, but is {event.state}"
        if event.state == LEADER and detail["epoch"] != event.epoch:
            return f"it leads epoch {event.epoch}, but appends for {detail['epoch']}"
        return None

    def _truncate(self, last: TraceEvent, event: TraceEvent) -> str | None:
        detail = event.detail
        if (detail["from"], detail["to"]) != (last.leo, event.leo) or event.leo > last.leo:
            return f"its log end moves from {last.leo} to {event.leo}, but it reports {detail}"
        if event.state != FOLLOWER:
            return f"it truncates its log as {event.state}"
        return None

    def _high_watermark(self, last: TraceEvent, event: TraceEvent) -> str | None:
        if event.hw <= last.hw:
            return f"its high watermark moves from {last.hw} to {event.hw}"
        if event.state == LEADER:
            if event.hw <= self.epoch_start:
                return (
                    f"its high watermark is {event.hw}, but its epoch starts at "
                    f"{self.epoch_start}: own records must be committed first"
                )
        elif event.state != FOLLOWER:
            return f"its high watermark moves from {last.hw} to {event.hw} as {event.state}"
        return None

    def _commit(self, last: TraceEvent, event: TraceEvent) -> str | None:
        base, end = event.detail["base"], event.detail["last"] + 1
        if end > event.hw:
            return f"it delivers up to {end}, beyond its high watermark {event.hw}"
        if self.delivered is not None and base != self.delivered:
            return f"it delivers offset {base}, but {self.delivered} is next"
        return None

    def _claim(self, last: TraceEvent, event: TraceEvent) -> str | None:
        if event.state != LEADER or event.detail["epoch_start"] != self.epoch_start:
            return f"its controller takes over as {event.state}, {event.detail}"
        if self.delivered is None or self.delivered <= self.epoch_start:
            return (
                f"its controller takes over at offset {self.delivered}, before its epoch's first "
                f"record at {self.epoch_start}"
            )
        return None

    # --- snapshots --------------------------------------------------------------------

    def _snapshot(self, last: TraceEvent, event: TraceEvent) -> str | None:
        end = event.detail["end"]
        # A new leader may not know a high watermark, but still knows what it delivered before.
        committed = max(event.hw, NONE if self.delivered is None else self.delivered)
        if event.detail["by"] == "created" and end > committed:
            return f"it makes a snapshot up to {end}, beyond its high watermark {committed}"
        return None

    def _install(self, last: TraceEvent, event: TraceEvent) -> str | None:
        end = event.detail["end"]
        if event.state != FOLLOWER:
            return f"it installs a snapshot as {event.state}"
        if event.leo != end or end < last.hw:
            return f"its log ends at {event.leo} after a snapshot that ends at {end}"
        return None

    def _load(self, last: TraceEvent, event: TraceEvent) -> str | None:
        # The snapshot present at start may be loaded late: a single voter leads at once.
        late = event.state == LEADER and self.loaded
        return "it loads a snapshot as leader" if late else None


def _frame(last: TraceEvent, event: TraceEvent) -> str | None:
    """Return what ``event`` changed although its kind never changes it."""
    if (
        event.leo == last.leo
        and event.hw == last.hw
        and event.state == last.state
        and event.epoch == last.epoch
        and event.leader == last.leader
        and event.voted == last.voted
    ):
        return None
    allowed = MAY_CHANGE.get(event.kind, frozenset())
    if event.state != last.state and "state" not in allowed:
        return f"{event.kind!r} changes its state from {last.state} to {event.state}"
    for field in FIELDS[1:]:
        old, new = getattr(last, field), getattr(event, field)
        if old != new and field not in allowed:
            return f"{event.kind!r} changes its {field} from {old} to {new}"
    return None


_RULES: Final[dict[str, Rule]] = {
    "state": ReplicaModel._state,
    "elected": ReplicaModel._elected,
    "grant": ReplicaModel._grant,
    "stop": ReplicaModel._stop,
    "append": ReplicaModel._append,
    "truncate": ReplicaModel._truncate,
    "hw": ReplicaModel._high_watermark,
    "commit": ReplicaModel._commit,
    "claim": ReplicaModel._claim,
    "snapshot": ReplicaModel._snapshot,
    "install": ReplicaModel._install,
    "load": ReplicaModel._load,
}
