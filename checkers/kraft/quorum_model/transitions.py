"""The next states of one replica: the transitions of KIP-595, 853 and 996.

A replica is its position: state, epoch, leader, vote, log end and high watermark. Each kind of
event may change some of these, in some ways and some states, and leaves the rest unchanged. Rules
with an id of their own (``election_rules``, ``log_rules``) are not repeated here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraftwreck.checkers.kraft.quorum_model.replica import Replica
from kraftwreck.histories.trace import TraceEvent

NONE: Final = -1
LEADER, FOLLOWER, RESIGNED = "leader", "follower", "resigned"
UNATTACHED, PROSPECTIVE, CANDIDATE = "unattached", "prospective", "candidate"
STATES: Final = frozenset((LEADER, FOLLOWER, RESIGNED, UNATTACHED, PROSPECTIVE, CANDIDATE))

_NOTHING: Final = frozenset[str]()
MAY_CHANGE: Final[dict[str, frozenset[str]]] = {
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

_Transition = Callable[[Replica, TraceEvent, TraceEvent], "str | None"]


def refusal(replica: Replica, last: TraceEvent | None, event: TraceEvent) -> str | None:
    """Return why ``event`` is no transition from the position ``last``, None if it is one."""
    if event.kind == "start":
        return _start(replica, last, event)
    if last is None:
        return None if event.seq else f"its first event is {event.kind!r}, not a start"
    judge = _TRANSITIONS.get(event.kind)
    return judge(replica, last, event) if judge is not None else None


def changed(last: TraceEvent, event: TraceEvent) -> str | None:
    """Return what ``event`` changed although its kind never changes it."""
    may = MAY_CHANGE.get(event.kind, _NOTHING)
    if event.state != last.state:
        if event.state not in STATES:
            return f"there is no state {event.state!r}"
        if "state" not in may:
            return _change(event, "state", last.state, event.state)
    if event.leo != last.leo and "leo" not in may:
        return _change(event, "leo", last.leo, event.leo)
    if event.hw != last.hw and "hw" not in may:
        return _change(event, "hw", last.hw, event.hw)
    if event.epoch != last.epoch and "epoch" not in may:
        return _change(event, "epoch", last.epoch, event.epoch)
    if event.leader != last.leader and "leader" not in may:
        return _change(event, "leader", last.leader, event.leader)
    if event.voted != last.voted and "voted" not in may:
        return _change(event, "voted", last.voted, event.voted)
    return None


def _change(event: TraceEvent, field: str, old: object, new: object) -> str:
    return f"{event.kind!r} changes its {field} from {old} to {new}"


def _start(replica: Replica, last: TraceEvent | None, event: TraceEvent) -> str | None:
    """KIP-595: a process continues with the epoch, vote and leader on its disk."""
    if event.seq != 0:
        return f"it starts with event number {event.seq} of its process"
    if event.hw != NONE:
        return f"it starts with a high watermark, {event.hw}: that is learned, not stored"
    if event.state == PROSPECTIVE:
        return f"it starts as {event.state}"
    if event.state == CANDIDATE and event.voted != replica.id:
        return f"it starts as candidate with its vote given to {event.voted}"
    if event.state == FOLLOWER and event.leader in (NONE, replica.id):
        return f"it starts as a follower of {event.leader}"
    if last is None or event.detail.get("directory") != replica.directory:
        return None
    if event.incarnation <= last.incarnation:
        return f"process {event.incarnation} starts after process {last.incarnation}"
    if event.epoch != last.epoch:
        return None
    if last.state == LEADER and event.state != RESIGNED:
        return f"it led epoch {last.epoch}, and starts in it as {event.state}"
    if last.state == FOLLOWER and event.leader not in (NONE, last.leader):
        return f"it followed {last.leader} in epoch {last.epoch}, and starts with {event.leader}"
    return None


def _state(replica: Replica, last: TraceEvent, event: TraceEvent) -> str | None:
    told = event.detail.get("from")
    if told is not None and told != last.state:
        return f"it reports that it was {told}, but was {last.state}"
    move = f"from {last.state} of epoch {last.epoch} to {event.state} of epoch {event.epoch}"
    if event.epoch < last.epoch:
        return None  # I6.
    if event.state == LEADER:
        return _lead(replica, event, move)
    if event.hw != last.hw:
        return f"{move}: the high watermark goes from {last.hw} to {event.hw}"
    if event.epoch > last.epoch:
        return _new_epoch(replica, last, event, move)
    if (last.state, event.state) not in SAME_EPOCH and not _alone(replica, last, event):
        return f"{move}: there is no such transition"
    if event.state == RESIGNED:
        return None
    if event.voted != last.voted:
        return f"{move}: its vote for {last.voted} becomes one for {event.voted}"
    if event.leader == replica.id:
        return f"{move}: it is its own leader"
    if event.leader != last.leader and not (event.state == FOLLOWER and last.leader == NONE):
        return f"{move}: its leader changes from {last.leader} to {event.leader}"
    if event.state == FOLLOWER and event.leader == NONE:
        return f"{move}: it follows no leader"
    # An observer may know the leader by id alone, without an address to fetch from.
    gave_up = (last.state, event.state) == (PROSPECTIVE, UNATTACHED)
    if gave_up and event.leader in replica.voters:
        return f"{move}: it knows the leader, {event.leader}, and does not follow it again"
    return None


def _alone(replica: Replica, last: TraceEvent, event: TraceEvent) -> bool:
    """Whether the only voter campaigns again at once."""
    return (last.state, event.state) == (RESIGNED, PROSPECTIVE) and len(replica.voters) == 1


def _lead(replica: Replica, event: TraceEvent, move: str) -> str | None:
    if event.leader != replica.id or event.hw != NONE:
        return f"{move}: with leader {event.leader} and high watermark {event.hw}"
    if event.voted != NONE:
        return f"{move}: a leader keeps no vote, but this one has {event.voted}"
    return None


def _new_epoch(replica: Replica, last: TraceEvent, event: TraceEvent, move: str) -> str | None:
    if event.state == CANDIDATE:
        if last.state != PROSPECTIVE or event.epoch != last.epoch + 1:
            return f"{move}: only a winner of pre-votes becomes candidate of the next epoch"
        if event.voted != replica.id or event.leader != NONE:
            return f"{move}: with its vote for {event.voted} and leader {event.leader}"
        return None
    if event.state not in (UNATTACHED, FOLLOWER):
        return f"{move}: there is no such transition"
    if event.voted != NONE:
        return f"{move}: a vote for {event.voted} in an epoch it has just heard of"
    if event.leader == replica.id:
        return f"{move}: it is its own leader"
    if event.state == FOLLOWER and event.leader == NONE:
        return f"{move}: it follows no leader"
    return None


def _elected(replica: Replica, last: TraceEvent, event: TraceEvent) -> str | None:
    detail = event.detail
    if event.state != LEADER:
        return f"elected as {event.state}"
    if replica.id not in detail["voters"] or replica.id not in detail["granting"]:
        return f"elected with the votes {detail['granting']} of {detail['voters']}"
    if detail["epoch_start"] != event.leo:
        return f"its epoch starts at {detail['epoch_start']}, its log ends at {event.leo}"
    return None


def _grant(replica: Replica, last: TraceEvent, event: TraceEvent) -> str | None:
    detail = event.detail
    candidate = detail["candidate"]
    what = "pre-vote" if detail["pre"] else "vote"
    say = f"a {what} for {candidate} in epoch {detail['epoch']} as {event.state}"
    if detail["epoch"] != event.epoch:
        return f"{say} of epoch {event.epoch}"
    if detail["last_offset"] != event.leo:
        return f"{say}: it compares with {detail['last_offset']}, its log ends at {event.leo}"
    if candidate == replica.id:
        return f"{say}: it needs none from itself"
    if detail["pre"]:
        # An observer stays a follower when its leader is silent, and grants then.
        heard = event.state == FOLLOWER and replica.fetched and replica.votes_itself
        if event.state == LEADER or heard:
            return f"{say}, whose leader is alive"
        return f"{say} takes its vote" if event.voted != last.voted else None
    if event.state not in (UNATTACHED, PROSPECTIVE):
        return say
    if event.voted != candidate or last.voted not in (NONE, candidate):
        return f"{say}: its vote goes from {last.voted} to {event.voted}"
    if last.voted != candidate and last.leader != NONE:
        return f"{say}, although {last.leader} leads"
    return None


def _stop(replica: Replica, last: TraceEvent, event: TraceEvent) -> str | None:
    """KIP-595: a leader that shuts down stops once it knows a successor, and informs the other
    nodes until then. A shutdown that ends by timeout leaves no event."""
    alone = not replica.votes_itself or len(replica.voters) < 2
    if event.state == RESIGNED and not alone and "reason" not in event.detail:
        return "it stops as resigned, but knows no successor yet"
    return None


def _append(replica: Replica, last: TraceEvent, event: TraceEvent) -> str | None:
    detail = event.detail
    if event.leo != detail["last"] + 1:
        return f"its log end moves to {event.leo} by offsets {detail['base']} to {detail['last']}"
    if detail["by"] != event.state:
        return f"it appends as {detail['by']}, but is {event.state}"
    return None


def _truncate(replica: Replica, last: TraceEvent, event: TraceEvent) -> str | None:
    detail = event.detail
    if (detail["from"], detail["to"]) != (last.leo, event.leo) or event.leo > last.leo:
        return f"its log end moves from {last.leo} to {event.leo}, but it reports {detail}"
    if event.state != FOLLOWER:
        return f"it truncates its log as {event.state}"
    return None


def _high_watermark(replica: Replica, last: TraceEvent, event: TraceEvent) -> str | None:
    if event.hw in (last.hw, NONE):
        return f"its high watermark moves from {last.hw} to {event.hw}"
    if event.state not in (LEADER, FOLLOWER):
        return f"its high watermark moves from {last.hw} to {event.hw} as {event.state}"
    return None


def _claim(replica: Replica, last: TraceEvent, event: TraceEvent) -> str | None:
    start = event.detail["epoch_start"]
    if event.state == LEADER and start != replica.epoch_start:
        return f"its controller claims the epoch from offset {start}, not {replica.epoch_start}"
    return None


def _install(replica: Replica, last: TraceEvent, event: TraceEvent) -> str | None:
    if event.state not in (LEADER, FOLLOWER):
        return f"it installs a snapshot as {event.state}"
    if event.leo != event.detail["end"]:
        return f"its log ends at {event.leo} after a snapshot that ends at {event.detail['end']}"
    return None


_TRANSITIONS: Final[dict[str, _Transition]] = {
    "state": _state,
    "elected": _elected,
    "grant": _grant,
    "stop": _stop,
    "append": _append,
    "truncate": _truncate,
    "hw": _high_watermark,
    "claim": _claim,
    "install": _install,
}
