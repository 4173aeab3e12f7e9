"""D5, D7, D16: a fetch session says what is new, also to fetches that nobody has sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.protocol import errors
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.events import FetchPart, FetchReceived
from kraftwreck.nodes.replication.sessions import Session, Sessions
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import session_rehearsal
from kraftwreck.systems.kraft.simulated.session_rehearsal import (
    LAST_EPOCH,
    SessionRehearsal,
    judge,
    judge_table,
)
from tests.replication.test_replicas import Broker, only
from tests.replication.world import KEY, batch

pytestmark = pytest.mark.interpreted

Patch = pytest.MonkeyPatch
Parts = tuple[out.ReadPart, ...]


def leaves_out(patch: Patch, silent: Callable[[Session, out.ReadPart], bool]) -> None:
    """Let sessions leave out parts that are ``silent``, and remember their offsets."""
    news = Session.news

    def planted(self: Session, parts: Parts, *, full: bool) -> Parts:
        return tuple(each for each in news(self, parts, full=full) if not silent(self, each))

    patch.setattr(Session, "news", planted)


def leaves_diverging_parts_out(patch: Patch) -> None:
    leaves_out(patch, lambda _, part: part.diverging is not None)


def leaves_errors_out(patch: Patch) -> None:
    leaves_out(patch, lambda _, part: part.error != errors.NONE)


def remembers_offsets_over_an_error(patch: Patch) -> None:
    news = Session.news

    def planted(self: Session, parts: Parts, *, full: bool) -> Parts:
        before = dict(self.sent)
        told = news(self, parts, full=full)
        self.sent.update({each.key: before[each.key] for each in parts if each.error})
        return told

    patch.setattr(Session, "news", planted)


def is_right(patch: Patch) -> None:
    """Nothing is wrong."""


class Fetched:
    """A broker with a record, and a consumer's session, whose second answer is empty."""

    def __init__(self) -> None:
        self.broker = Broker(isr=(1,))
        self.broker.produce(batch(1))
        first = only(self.broker.fetch(-1, 1, session_epoch=0), out.ReplyFetch)
        self.event = FetchReceived(3, (), session_id=first.session_id, session_epoch=1)
        self.reply = only(self.broker.step(self.event), out.ReplyFetch)
        assert self.reply.parts == ()
        session = self.broker.core.sessions.get(first.session_id)
        assert session is not None
        self.session = session
        self.partition = self.broker.core.partitions[KEY]


@pytest.mark.parametrize(
    ("plant", "broken"),
    [
        (is_right, []),
        (
            leaves_diverging_parts_out,
            [("D7", "whose history diverges from that of a fetch at 2")],
        ),
        (leaves_errors_out, [("D5", "although its leader epoch is not 4")]),
        (remembers_offsets_over_an_error, [("D5", "although its last answer was an error")]),
    ],
)
def test_a_session_leaves_out_no_news(
    plant: Callable[[Patch], None], broken: list[tuple[str, str]], monkeypatch: Patch
) -> None:
    """The log ends at 1, in leader epoch 3."""
    fetched = Fetched()
    plant(monkeypatch)
    assert list(judge(fetched.session, fetched.partition)) == broken


def test_the_session_itself_stays_as_it_is(monkeypatch: Patch) -> None:
    fetched = Fetched()
    before = (fetched.session.epoch, dict(fetched.session.sent), dict(fetched.session.parts))
    assert list(judge(fetched.session, fetched.partition)) == []
    session = fetched.session
    assert (session.epoch, session.sent, session.parts) == before
    later = replace(fetched.event, session_epoch=2)
    assert only(fetched.broker.step(later), out.ReplyFetch).parts == ()


class Rehearsed(Fetched):
    """The same with the rule, which sees its answers."""

    def __init__(self, patch: Patch) -> None:
        super().__init__()
        leaves_diverging_parts_out(patch)
        self.failures = Failures()
        traffic = SimpleNamespace(on_answer=[])
        patch.setattr(session_rehearsal, "record_traffic", lambda world: traffic)
        patch.setattr(session_rehearsal, "Node", SimpleNamespace)
        self.full: set[Any] = set()
        disk = SimpleNamespace(logs=SimpleNamespace(full=self.full))
        patch.setattr(session_rehearsal, "disk_of_records", lambda host: disk)
        world: Any = SimpleNamespace(now=0)
        SessionRehearsal(world, self.failures)
        data = SimpleNamespace(core=self.broker.core)
        self.node = SimpleNamespace(broker=SimpleNamespace(data=data))
        self.host: Any = SimpleNamespace(id=4, name="b4", life=1, node=self.node)
        self.answered = traffic.on_answer[0]

    def see(self, event: Any = None, reply: Any = None) -> list[str]:
        message: Any = SimpleNamespace(call=SimpleNamespace(event=event or self.event))
        self.answered(self.host, message, reply or self.reply, {})
        return [failure.type for failure in self.failures.items]


def test_each_session_of_a_process_is_rehearsed_once(monkeypatch: Patch) -> None:
    one = Rehearsed(monkeypatch)
    assert one.see() == ["D7"]
    assert one.see() == ["D7"]
    one.host.life = 2
    assert one.see() == ["D7"] * 2
    one.host.id = 5
    assert one.see() == ["D7"] * 3


def test_other_answers_show_no_session_that_leaves_something_out(monkeypatch: Patch) -> None:
    one = Rehearsed(monkeypatch)
    assert one.see(replace(one.event, session_epoch=0)) == []
    assert one.see(replace(one.event, session_id=one.event.session_id + 1)) == []
    assert one.see(reply=replace(one.reply, error=errors.INVALID_FETCH_SESSION_EPOCH)) == []
    assert one.see(reply=replace(one.reply, parts=(out.ReadPart(KEY, errors.NONE),))) == []
    assert one.see(FetchPart(KEY, 0, 1)) == []
    one.node.broker.data, data = None, one.node.broker.data
    assert one.see() == []
    one.node.broker.data, one.partition.leading = data, False
    assert one.see() == []
    one.partition.leading = True
    assert one.see() == ["D7"]


def test_an_answer_of_a_full_disk_is_not_what_the_session_has_noted(monkeypatch: Patch) -> None:
    one = Rehearsed(monkeypatch)
    one.partition.leading = False
    reply = replace(one.reply, parts=(out.ReadPart(KEY, errors.NONE, 5, 1),))
    one.full.add(KEY)
    assert one.see(reply=reply) == []
    one.full.clear()
    assert one.see(reply=reply) == []
    assert one.see(reply=reply) == ["D16"]


def test_a_session_repeats_nothing(monkeypatch: Patch) -> None:
    """The first answer has all partitions. An error and its end are news, too."""
    one = Rehearsed(monkeypatch)
    one.partition.leading = False
    part, failed = (
        out.ReadPart(KEY, errors.NONE, 5, 1),
        out.ReadPart(KEY, errors.FENCED_LEADER_EPOCH),
    )
    begin = replace(one.event, session_epoch=0)

    def answer(part: out.ReadPart, event: Any = None) -> list[str]:
        return one.see(event, replace(one.reply, parts=(part,)))

    assert answer(part, begin) == []
    assert answer(part, begin) == []
    assert answer(replace(part, records=out.Slice(4, 5, 100))) == []
    assert answer(replace(part, diverging=(1, 4))) == []
    assert answer(failed) == []
    assert answer(failed) == []
    assert answer(part) == []
    assert answer(replace(part, high_watermark=6)) == []
    assert answer(part) == []
    assert answer(part, replace(one.event, forgotten=(KEY,))) == []
    assert answer(part) == ["D16"]
    one.host.life = 2
    assert answer(part) == ["D16"]


def evicts_by_age(patch: Patch) -> None:
    """Let sessions go in the order in which they began."""
    resolve = Sessions.resolve

    def planted(self: Sessions, event: FetchReceived) -> Any:
        before = list(self._by_id)
        found = resolve(self, event)
        if event.session_epoch > 0:
            for each in before:
                self._by_id.move_to_end(each)
        return found

    patch.setattr(Sessions, "resolve", planted)


def never_begins_again(patch: Patch) -> None:
    """Let the epoch after the last one be no epoch."""
    resolve = Sessions.resolve

    def planted(self: Sessions, event: FetchReceived) -> Any:
        found = resolve(self, event)
        if event.session_epoch == LAST_EPOCH and found[1] is not None:
            found[1].epoch = LAST_EPOCH + 1
        return found

    patch.setattr(Sessions, "resolve", planted)


def keeps_sessions(patch: Patch) -> None:
    """Let a request that ends a session leave it."""
    resolve = Sessions.resolve

    def planted(self: Sessions, event: FetchReceived) -> Any:
        ends = event.session_epoch < 0
        return resolve(self, replace(event, session_id=0) if ends else event)

    patch.setattr(Sessions, "resolve", planted)


@pytest.mark.parametrize(
    ("plant", "broken"),
    [
        (is_right, []),
        (evicts_by_age, ["would have 999 of 1000 sessions after one more has begun, and"]),
        (never_begins_again, ["would refuse epoch 1 of a session that has reached 2147483647"]),
        (keeps_sessions, ["would keep a session that its consumer has ended"]),
    ],
)
def test_a_table_of_sessions_lets_the_least_used_one_go(
    plant: Callable[[Patch], None], broken: list[str], monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    found = list(judge_table((FetchPart(KEY, 0, 1),)))
    assert len(found) == len(broken)
    assert all(each.startswith(said) for each, said in zip(found, broken, strict=True))


def test_a_table_is_filled_once_in_a_run(monkeypatch: Patch) -> None:
    one = Rehearsed(monkeypatch)
    keeps_sessions(monkeypatch)
    named = replace(one.event, parts=(FetchPart(KEY, 0, 1),))
    assert one.see(named).count("D16") == 1
    assert one.see(named).count("D16") == 1
