"""D16: the connection of a producer without acknowledgements is closed if a batch was refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kraftwreck.nodes.replication.events import ListOffsetsReceived, ProduceReceived
from kraftwreck.simulation.failures import Failures
from kraftwreck.systems.kraft.simulated import silence_watch
from kraftwreck.systems.kraft.simulated.record_logs import RecordLog
from tests.replication.world import batch

pytestmark = pytest.mark.interpreted

KEY, OTHER = (bytes(16), 0), (bytes(16), 1)
SENT, REFUSED = batch(1), batch(2)


class Broker:
    """A broker whose log of one partition has a batch."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.failures = Failures()
        self.full: set[Any] = set()
        traffic = SimpleNamespace(on_silence=[])
        disk = SimpleNamespace(logs=SimpleNamespace(full=self.full))
        patch.setattr(silence_watch, "ProduceCall", SimpleNamespace)
        patch.setattr(silence_watch, "record_traffic", lambda world: traffic)
        patch.setattr(silence_watch, "disk_of_records", lambda host: disk)
        log = RecordLog(batches=[batch(0).placed(0, 3), SENT.placed(1, 3)])
        logs: Any = SimpleNamespace(of=lambda host, key: log if key == KEY else None)
        world: Any = SimpleNamespace(now=0)
        silence_watch.SilenceWatch(world, self.failures, logs)
        (self.look,) = traffic.on_silence
        self.host: Any = SimpleNamespace(id=4, name="b1")

    def ends(
        self, *batches: Any, closes: bool, failed: bool = False, event: Any = None
    ) -> list[str]:
        event = event or ProduceReceived(1, 0, 1000, batches)
        self.look(
            self.host, SimpleNamespace(call=SimpleNamespace(event=event, failed=failed)), closes
        )
        return [each.explanation for each in self.failures.items]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    return Broker(monkeypatch)


def test_the_connection_stays_open_after_an_append(broker: Broker) -> None:
    assert broker.ends((KEY, SENT), closes=False) == []
    assert "closes the connection" in broker.ends((KEY, SENT), closes=True)[0]
    assert [each.type for each in broker.failures.items] == ["D16"]


@pytest.mark.parametrize("key", [KEY, OTHER])
def test_the_connection_is_closed_after_a_refusal(broker: Broker, key: Any) -> None:
    assert broker.ends((key, REFUSED), closes=True) == []
    assert broker.ends((KEY, SENT), (key, REFUSED), closes=True) == []
    assert "leaves open" in broker.ends((KEY, SENT), (key, REFUSED), closes=False)[0]


def test_a_batch_that_cannot_be_read_is_refused(broker: Broker) -> None:
    assert broker.ends((KEY, SENT), closes=True, failed=True) == []
    assert len(broker.ends((KEY, SENT), closes=False, failed=True)) == 1


def test_a_full_disk_may_have_refused_it(broker: Broker) -> None:
    broker.full.add(KEY)
    assert broker.ends((KEY, SENT), closes=True) == []
    assert broker.ends((KEY, REFUSED), closes=False) == []


def test_other_requests_are_not_judged(broker: Broker) -> None:
    assert broker.ends(closes=True, event=ListOffsetsReceived(1, ())) == []
    broker.look(broker.host, SimpleNamespace(call=None), True)
    assert broker.failures.items == []
