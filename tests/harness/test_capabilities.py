"""An environment offers capabilities, and has a reason for each that it lacks."""

from __future__ import annotations

import pytest

from kraftwreck.harness.capabilities import (
    CLOCKS,
    PACKETS,
    PROCESSES,
    Capability,
    Environment,
    Grudge,
    UnsupportedError,
    host_of,
)


class Switch:
    """Drops packets."""

    def drop(self, grudge: Grudge) -> dict[str, object]:
        return {"dropping": sorted(grudge)}

    def heal(self) -> dict[str, object]:
        return {}


def test_an_offered_capability_is_returned() -> None:
    switch = Switch()
    env = Environment(["n1"], {PACKETS: switch})
    assert env[PACKETS] is switch
    assert env.why_not(PACKETS) is None


def test_a_lacking_capability_has_its_declared_reason() -> None:
    env = Environment(["n1"], {}, lacking={"clocks": "static Go programs read no preloaded clock"})
    with pytest.raises(UnsupportedError, match=r"^static Go programs read no preloaded clock$"):
        env[CLOCKS]


def test_a_capability_without_a_reason_is_named() -> None:
    env = Environment(["n1"], {})
    with pytest.raises(UnsupportedError, match=r"^the system offers no processes$"):
        env[PROCESSES]


def test_an_offer_without_a_method_is_refused_when_the_environment_is_made() -> None:
    with pytest.raises(TypeError, match=r"^Switch is offered for 'processes' and lacks kill, pa"):
        Environment(["n1"], {PROCESSES: Switch()})


def test_a_system_defines_a_capability_of_its_own() -> None:
    own: Capability[Switch] = Capability("switch", Switch)
    assert Environment(["n1"], {own: Switch()})[own].heal() == {}


def test_processes_are_named_after_their_nodes() -> None:
    assert Environment(["n1", "n2"], {}).processes == ("n1", "n2")
    env = Environment(["n1", "n2"], {}, processes=["n1/redis", "n1/sentinel", "n2/redis"])
    assert env.processes_of("n1") == ("n1/redis", "n1/sentinel")
    assert env.processes_of("n2") == ("n2/redis",)
    assert [host_of(name) for name in ("n2", "n2/sentinel")] == ["n2", "n2"]


def test_an_environment_without_leaders_has_none() -> None:
    assert Environment(["n1"], {}).leader() is None
