"""One process asks scripted peers: leaders, the active controller and a voter (F35)."""

from __future__ import annotations

import asyncio
import io
from contextlib import redirect_stderr, suppress
from typing import Final

from kraftwreck.simulation.instant_loop import StuckError
from kraftwreck.systems.kraft.sockets.asking import Asking
from kraftwreck.systems.kraft.sockets.asking_leaders import AskingLeaders
from kraftwreck.systems.kraft.sockets.asking_quorum import AskingQuorum
from kraftwreck.systems.kraft.sockets.network import Network

LATE_ANSWERS_S: Final = 5.0
"""How long is waited for late answers in the end."""
MOST_SAID: Final = 5


def failures_with_scripted_peers(seed: int) -> list[str]:
    """Send the requests of ``seed``; return what was wrong, one line each."""
    network = Network(seed, 1_000.0)
    asking = Asking(network)

    async def play() -> None:
        leaders, quorum = AskingLeaders(asking), AskingQuorum(asking)
        try:
            await asyncio.gather(leaders.play(), quorum.play())
            await asyncio.sleep(LATE_ANSWERS_S)
            for event in asking.events:
                asking.wrong.append(f"an answer is taken twice, or for no request: {event}")
        finally:
            await leaders.close()
            await quorum.close()

    try:
        with redirect_stderr(io.StringIO()):
            network.run_until_complete(play())
    except Exception as error:
        asking.wrong.append(f"the process fails: {error!r}")
    finally:
        for task in asyncio.all_tasks(network):
            task.cancel()
        with suppress(StuckError):
            network.run_until_complete(asyncio.sleep(LATE_ANSWERS_S))
        network.close()
    return asking.wrong[:MOST_SAID]
