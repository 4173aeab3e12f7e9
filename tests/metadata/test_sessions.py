"""The controller's memory of brokers between heartbeats."""

from __future__ import annotations

from dataclasses import dataclass

from kraftwreck.nodes.metadata.sessions import Sessions

SECOND = 1_000_000


@dataclass
class Broker:
    broker_id: int
    epoch: int = 5
    fenced: bool = False
    in_controlled_shutdown: bool = False


def test_a_session_lasts_from_the_last_contact_for_its_time() -> None:
    sessions = Sessions(timeout_ms=9000)
    sessions.claim(0, 10)
    sessions.touch(1, 5, 2 * SECOND)
    assert sessions.is_valid(1, 5, 11 * SECOND - 1)
    assert not sessions.is_valid(1, 5, 11 * SECOND)


def test_a_claim_starts_the_clock_of_brokers_it_has_not_heard_of() -> None:
    sessions = Sessions()
    sessions.touch(1, 5, 1 * SECOND)
    sessions.claim(100 * SECOND, 10)
    assert sessions.expiry(1, 5) == sessions.expiry(2, 5) == 109 * SECOND


def test_contact_never_goes_back() -> None:
    sessions = Sessions()
    sessions.touch(1, 5, 3 * SECOND)
    sessions.touch(1, 5, 2 * SECOND)
    assert sessions.expiry(1, 5) == 12 * SECOND


def test_contacts_of_one_epoch_do_not_count_for_another() -> None:
    sessions = Sessions()
    sessions.claim(0, 10)
    sessions.touch(1, 5, 8 * SECOND)
    sessions.note_metadata_offset(1, 5, 99)
    assert sessions.expiry(1, 6) == 9 * SECOND
    assert sessions.metadata_offset(1, 6) == -1


def test_the_stalest_unfenced_broker_is_found() -> None:
    sessions = Sessions()
    sessions.touch(1, 5, 2 * SECOND)
    sessions.touch(2, 5, 1 * SECOND)
    sessions.touch(3, 5, 0)
    brokers = [Broker(1), Broker(2), Broker(3, fenced=True)]
    assert sessions.stalest(brokers, 9 * SECOND) is None
    assert sessions.stalest(brokers, 10 * SECOND) == 2
    assert sessions.stalest(brokers, 20 * SECOND) == 2


def test_only_active_brokers_hold_a_shutdown_back() -> None:
    sessions = Sessions()
    assert sessions.lowest_active_offset([]) is None
    sessions.note_metadata_offset(1, 5, 70)
    sessions.note_metadata_offset(2, 5, 60)
    brokers = [Broker(1), Broker(2, in_controlled_shutdown=True), Broker(3, fenced=True)]
    assert sessions.lowest_active_offset(brokers) == 70
    assert sessions.lowest_active_offset([*brokers, Broker(4)]) == -1, "not heard of yet"


def test_the_offset_of_a_controlled_shutdown_is_set_once() -> None:
    """KAFKA-14292."""
    sessions = Sessions()
    sessions.start_controlled_shutdown(1, 5, 40)
    sessions.start_controlled_shutdown(1, 5, 80)
    assert sessions.controlled_shutdown_offset(1, 5) == 40


def test_a_shutdown_that_a_predecessor_began_lies_before_the_claim() -> None:
    sessions = Sessions()
    sessions.start_controlled_shutdown(1, 5, 40)
    sessions.claim(0, 55)
    assert sessions.controlled_shutdown_offset(1, 5) == 55


def test_a_registration_is_seen_from_its_record_on_or_from_its_batch() -> None:
    sessions = Sessions()
    assert sessions.registration_offset(1, 5) == 5
    sessions.register(1, 5, SECOND, 7)
    assert sessions.registration_offset(1, 5) == 7
    sessions.note_metadata_offset(1, 5, 30)
    sessions.register(1, 5, 2 * SECOND, 44)
    assert sessions.registration_offset(1, 5) == 44
    assert sessions.metadata_offset(1, 5) == 30, "the same process"
    sessions.register(1, 50, 3 * SECOND, 50)
    assert sessions.metadata_offset(1, 50) == -1, "another"
    assert sessions.expiry(1, 50) == 12 * SECOND
    sessions.forget(1)
    assert sessions.registration_offset(1, 50) == 50
