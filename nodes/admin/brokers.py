"""Add brokers to a cluster, and remove them."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kraftwreck.nodes.admin import data_directory
from kraftwreck.nodes.admin.balance import Balancer, Say
from kraftwreck.nodes.admin.client import refused
from kraftwreck.nodes.admin.cluster import Cluster, State
from kraftwreck.nodes.admin.failure import NOT_DONE, AdminError
from kraftwreck.nodes.admin.planner import Plan
from kraftwreck.nodes.protocol.errors import BROKER_ID_NOT_REGISTERED, NONE

Result = dict[str, Any]


def add_brokers(
    cluster: Cluster, balancer: Balancer, added: Collection[int], say: Say, dry_run: bool
) -> Result:
    """Wait until the brokers ``added`` are registered, and balance all brokers' load."""
    said = set[int]()

    def missing() -> list[int]:
        known = cluster.brokers()[1]
        return [b for b in sorted(added) if b not in known or known[b].fenced]

    def ready() -> bool:
        late = missing()
        if late and not said.issuperset(late):
            said.update(late)
            say(f"waiting until brokers {late} run")
        return not late

    patience = cluster.client.patience_s
    cluster.wait_until(
        ready,
        patience,
        lambda: (
            f"brokers {missing()} did not register within {patience:g} s; start their processes, "
            "and repeat the command"
        ),
    )

    def everybody(state: State) -> Collection[int]:
        return state.brokers.keys()

    if dry_run:
        state = cluster.state()
        return _described(balancer.plan(state, everybody(state)))
    state = balancer.run(everybody)
    return {"brokers": sorted(state.brokers), **balancer.done.counted()}


class Removal:
    """Removes brokers: drains them, waits for their end, unregisters them, deletes their data.

    ``directories`` are data directories of such brokers on this host.
    """

    def __init__(
        self,
        cluster: Cluster,
        balancer: Balancer,
        removed: Sequence[int],
        directories: Sequence[Path],
        say: Say,
    ) -> None:
        self._cluster = cluster
        self._balancer = balancer
        self._removed = sorted(set(removed))
        self._directories = list(directories)
        self._say = say
        self._of: dict[int, Path] = {}
        self._voters: set[int] = set()

    def run(self, timeout_s: float, dry_run: bool) -> Result:
        """Remove the brokers. Each step looks at the cluster first, so all may be repeated."""
        cluster_id, known = self._cluster.brokers()
        self._find_directories(cluster_id)
        present = [broker for broker in self._removed if broker in known]
        for broker in self._removed:
            if broker not in known:
                self._say(f"broker {broker} is not registered")
        places = {broker: str(known[broker].endpoint) for broker in present}
        self._voters = self._cluster.voters()
        state = self._cluster.state()
        if dry_run:
            return _described(self._balancer.plan(state, self._rest(state)))
        if present or any(state.on(broker) for broker in self._removed):
            self._drain()
            self._wait_for_end(present, timeout_s)
            self._drain()  # A topic may have been created since.
            for broker in present:
                self._unregister(broker)
            self._check_gone()
        deleted, left = self._delete(places)
        return {
            "unregistered": present,
            "deleted": deleted,
            "to_delete": left,
            **self._balancer.done.counted(),
        }

    def _find_directories(self, cluster_id: str) -> None:
        for directory in self._directories:
            meta = data_directory.owner(directory, cluster_id)
            if meta is None:
                self._say(f"{directory} is deleted already")
            elif meta.node_id not in self._removed:
                raise AdminError(
                    f"--data-dir {directory} belongs to node {meta.node_id}, which is not among "
                    f"the brokers to remove {self._removed}; pass another directory"
                )
            else:
                self._of[meta.node_id] = directory

    def _rest(self, state: State) -> Collection[int]:
        rest = state.brokers.keys() - set(self._removed)
        if not rest:
            raise AdminError(f"brokers {self._removed} are all there are; leave one at least")
        return rest

    def _drain(self) -> None:
        state = self._cluster.state()
        for (topic, number), partition in sorted(state.partitions.items()):
            alive = [b for b in partition.isr if b in state.brokers and not state.brokers[b].fenced]
            if not alive and set(partition.replicas) & set(self._removed):
                raise AdminError(
                    f"{topic}-{number}: no broker that runs is in sync (ISR "
                    f"{list(partition.isr)}), so it cannot be copied; start one of them first",
                    NOT_DONE,
                )
        self._balancer.run(self._rest)

    def _wait_for_end(self, present: Collection[int], timeout_s: float) -> None:
        """Wait until the brokers are fenced: one that runs could get replicas again."""
        waiting: set[int] = set()

        def ended() -> bool:
            known = self._cluster.brokers()[1]
            alive = [b for b in present if b in known and not known[b].fenced]
            for broker in set(alive) - waiting:
                self._stop(broker, str(known[broker].endpoint))
            waiting.update(alive)
            return not alive

        self._cluster.wait_until(
            ended,
            timeout_s,
            lambda: (
                f"brokers {sorted(waiting)} still run after {timeout_s:g} s, with no partition on "
                "them; stop their processes, and repeat the command"
            ),
        )

    def _stop(self, broker: int, at: str) -> None:
        directory = self._of.get(broker)
        process = None if directory is None else data_directory.user(directory)
        if broker in self._voters:
            self._say(
                f"broker {broker} at {at} is drained; it is a voter of the quorum, too: restart "
                "it with process.roles=controller"
            )
        elif process is None:
            self._say(f"broker {broker} at {at} is drained; stop its process now")
        else:
            self._say(f"broker {broker} at {at} is drained; stopping process {process}")
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)

    def _unregister(self, broker: int) -> None:
        answer = self._cluster.client.call("UnregisterBroker", {"broker_id": broker})
        if answer["error_code"] not in (NONE, BROKER_ID_NOT_REGISTERED):
            raise refused(f"broker {broker}", answer["error_code"], answer["error_message"])
        self._say(f"broker {broker} is unregistered")

    def _check_gone(self) -> None:
        def gone() -> bool:
            state = self._cluster.state()
            return not state.brokers.keys() & set(self._removed)

        self._cluster.wait_until(
            gone,
            self._cluster.client.patience_s,
            lambda: (
                f"brokers {self._removed} are registered again; stop their processes, and "
                "repeat the command"
            ),
        )
        if any(self._cluster.state().on(broker) for broker in self._removed):
            self._drain()

    def _delete(self, places: dict[int, str]) -> tuple[list[str], list[str]]:
        """Delete the data that is on this host; return what was deleted, and what was not."""
        deleted, left = [], []
        for broker in self._removed:
            directory = self._of.get(broker)
            if directory is None:
                if broker in places and not self._directories:
                    left.append(f"log.dirs of broker {broker} at {places[broker]}")
                continue
            if broker in self._voters:
                left.append(f"folders of partitions in {directory}, but not __cluster_metadata-0")
                continue
            if not self._unused(directory):
                raise AdminError(
                    f"{directory} is in use; stop its process, and repeat the command", NOT_DONE
                )
            try:
                self._delete_data(directory)
            except OSError as error:
                raise AdminError(
                    f"cannot delete {error.filename or directory}: {error.strerror}; delete "
                    f"{directory} yourself",
                    NOT_DONE,
                ) from error
            deleted.append(str(directory))
        for what in left:
            self._say(f"left to delete: {what}")
        return deleted, left

    def _unused(self, directory: Path) -> bool:
        """Wait until no process uses the directory: one that was stopped may take a moment."""
        with suppress(AdminError):
            self._cluster.wait_until(
                lambda: not data_directory.in_use(directory),
                self._cluster.client.patience_s,
                lambda: "in use",
            )
            return True
        return False

    def _delete_data(self, directory: Path) -> None:
        self._cluster.wait_until(
            lambda: data_directory.delete(directory),
            self._cluster.client.patience_s,
            lambda: f"{directory} is being written to; stop the process, and delete it yourself",
        )


def _described(plan: Plan) -> Result:
    return {
        "moves": [
            {
                "topic": move.old.topic,
                "partition": move.old.partition,
                "from": list(move.old.brokers),
                "to": list(move.brokers),
            }
            for move in plan.moves
        ],
        "replicas_to_copy": plan.copied,
        "bytes_to_copy": plan.bytes,
        "replicas_before": plan.replicas_before,
        "replicas_after": plan.replicas_after,
        "leaders_after": plan.leaders_after,
    }
