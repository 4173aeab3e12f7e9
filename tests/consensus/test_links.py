"""The next timeout of all links is always the earliest of their slots and back-offs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraftwreck.nodes.consensus.kraft.config import QuorumConfig
from kraftwreck.nodes.consensus.kraft.states import NEVER
from kraftwreck.nodes.consensus.links import Links

PEERS = st.integers(1, 3)
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["open", "close", "succeeded", "refused", "failed", "forget", "clear"]),
        PEERS,
        st.integers(0, 3_000_000),
    ),
    max_size=30,
)


def soonest(links: Links) -> int:
    """Go through everything that can run out."""
    ends = [deadline for _, deadline in links._out.values()]
    return min([*ends, *links._backoff.values()], default=NEVER)


@given(ACTIONS)
def test_the_next_event_is_the_soonest_of_all(actions: list[tuple[str, int, int]]) -> None:
    links = Links(QuorumConfig(node_id=0, cluster_id="c", directory_id=bytes(16), voters={}))
    now = 0
    for action, peer, wait in actions:
        now += wait
        links.expire(now)
        assert links.next_event() == soonest(links) > now
        match action:
            case "open":
                links.open(peer, now)
            case "close":
                links.close(peer, links._out.get(peer, (0, 0))[0])
            case "succeeded":
                links.succeeded(peer)
            case "refused":
                links.refused(peer, now)
            case "failed":
                links.failed(peer, now)
            case "forget":
                links.forget(peer)
            case _:
                links.clear()
        assert links.next_event() == soonest(links)
