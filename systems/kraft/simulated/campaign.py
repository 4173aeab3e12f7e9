"""Campaigns of KRaft: options, settings and faults of a simulated test, drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import msgspec

from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.workload import Workload
from kraftwreck.histories.fault import Fault
from kraftwreck.nemesis import triggers
from kraftwreck.nemesis.plan import host_names, plan_faults
from kraftwreck.nemesis.scope import Scope
from kraftwreck.nodes.draw import draw, draw_below
from kraftwreck.systems.campaign import ALL, Campaign
from kraftwreck.systems.kraft.faults import replica_faults
from kraftwreck.systems.kraft.options import PRODUCE, Draws
from kraftwreck.systems.kraft.simulated.knobs import SOCKETS, Knobs, draw_knobs
from kraftwreck.systems.kraft.workloads.registration import RegistrationWorkload
from kraftwreck.workloads.registry import find, workloads

PRODUCE_SHARE = 6
"""One run in this many of a campaign of all workloads is about records."""

REPLICAS = 3
"""Of this many runs with records one has faults against replication, two if its workload is that of
records."""

LONELY = 16
"""One run in this many has a single controller."""

STANDALONE = 5
"""One dynamic quorum in this many starts with one voter, like ``kafka-storage format
--standalone``, and grows."""

DENSE = 11
"""One seed in this many, with the remainder 3, sends many requests to one controller. Its run has
neither faults nor brokers, so that each request costs a tenth as much as in other runs."""

_FIRST_DENSE = 3
_DENSE_RATE = 200.0
_DENSE_WORKLOADS = ("requests", "requests", "partitions")

_RATES = (3.0, 5.0, 10.0, 10.0, 20.0)
_THREADS = (3, 5, 10, 20, 40)

_TIMED_NODES = {"snapshot_bytes": 8_000, "retention_bytes": 1, "clean_interval_ms": 500}
"""Manual settings for tests that need snapshots: with the defaults no short run makes one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KraftCampaign(Campaign):
    """Settings of all tests in a campaign of KRaft.

    With ``nodes`` 0 the seed chooses three to five controllers, or a single one in one run of
    sixteen. With ``rate`` or ``concurrency`` 0 the seed chooses, because fast and slow clients
    find different bugs. The kind of quorum and the number of brokers are
    :class:`~systems.kraft.options.Draws`. If the seed chooses all of them, some runs are
    :data:`DENSE`.
    """

    def options(self, seed: int) -> RunOptions:
        """Return the options of the test with this ``seed``. Raises OptionError."""
        draws = Draws.parsed(self.system_options)
        if draws.shells and self.workload == PRODUCE:
            raise OptionError("-w produce needs brokers that store records; leave --shells out")
        if draws.brokers == 0 and self.workload == PRODUCE:
            raise OptionError("-w produce needs brokers; leave --brokers 0 out")
        dense = self._is_dense(seed)
        name = _workload(seed, draws) if self.workload == ALL else self.workload
        if dense:
            name = _DENSE_WORKLOADS[draw_below(len(_DENSE_WORKLOADS), seed, "dense", "workload")]
        threads, rate = _load(find(name), seed)
        return RunOptions(
            system=self.system,
            workload=name,
            faults=() if dense else self.faults,
            time_limit_s=self.time_limit_s,
            cluster="sim",
            nodes=1 if dense else self.nodes or _controllers(seed),
            seed=seed,
            rate=_DENSE_RATE if dense else self.rate or rate,
            concurrency=self.concurrency or threads,
            style=self.style,
            interval_s=self.interval_s,
            governed=self.governed,
            floor=self.floor,
            store=self.store,
        )

    def _is_dense(self, seed: int) -> bool:
        """Return whether the run of ``seed`` is one of many requests to one controller."""
        draws = Draws.parsed(self.system_options)
        named = self.workload != ALL or self.nodes or self.rate or self.style != "swarm"
        if named or self.governed or draws.brokers is not None or draws.records or draws.shells:
            return False
        return seed % DENSE == _FIRST_DENSE

    def knobs(self, seed: int) -> Knobs:
        """Return the settings of the simulated world for the test with this ``seed``."""
        draws = Draws.parsed(self.system_options)
        options, brokers, records = self.options(seed), draws.brokers, draws.records
        if self._is_dense(seed):
            brokers = 0
        if options.workload == PRODUCE:
            records = True
        if records and brokers is None:
            brokers = (3, 3, 3, 3, 2, 1)[draw_below(6, seed, "produce", "brokers")]
        drawn = draw_knobs(
            seed,
            options.nodes,
            quorum=draws.quorum,
            brokers=brokers,
            records=records,
            snapshots=self.snapshots,
        )
        if draws.shells:
            # The request of a planted defect cannot be written to an input log, and the shell
            # of a real process has no data plane here.
            drawn = msgspec.structs.replace(
                drawn,
                shells=True,
                sockets=draw_below(SOCKETS, seed, "shells", "sockets") == 0,
                defects=0,
                records=False,
            )
        if self.style != "timed":
            grows = drawn.dynamic and "membership" in self.faults
            alone = grows and draw_below(STANDALONE, seed, "standalone") == 0
            return msgspec.structs.replace(drawn, first_voters=1) if alone else drawn
        return Knobs(
            segment_bytes=4_000,
            dynamic=drawn.dynamic,
            first_voters=drawn.first_voters,
            auto_join=drawn.auto_join,
            brokers=drawn.brokers,
            through_brokers=drawn.through_brokers,
            records=drawn.records,
            node=dict(_TIMED_NODES) if self.snapshots else {},
            shells=drawn.shells,
            sockets=drawn.sockets,
        )

    def schedule(self, seed: int) -> list[Fault]:
        """Return the faults of the test with this ``seed``."""
        options, knobs = self.options(seed), self.knobs(seed)
        if self.style == "timed":
            return plan_faults(options, knobs.brokers)
        if knobs.records and self.style == "swarm" and not self.governed:
            hosts = host_names(options, knobs.brokers)
            controllers, brokers = hosts[: options.nodes], hosts[options.nodes :]
            aimed = draw_below(REPLICAS, seed, "replica-faults", options.workload)
            share = 2 if options.workload == PRODUCE else 1
            if aimed < share:
                faults = replica_faults.plan(
                    options.faults, seed, options.time_limit_s, brokers, controllers
                )
                if faults:
                    return faults
        grows = knobs.dynamic and knobs.first_voters < min(2, options.nodes)
        if options.nodes == 1 or grows:
            # The only voter can neither be removed nor lose its disk.
            spared = tuple(f for f in options.faults if f not in ("membership", "disk"))
            options = replace(options, faults=spared)
        faults = plan_faults(options, knobs.brokers, lacking=knobs.lacking)
        if grows:
            faults = _growth(seed, "partition" in options.faults, faults)
        if knobs.upgrade:
            scope = Scope.of(options.system, host_names(options, knobs.brokers), knobs.brokers)
            faults = [*triggers.upheavals(options.faults, seed, scope), *faults]
        return faults


def _growth(seed: int, cuts: bool, others: list[Fault]) -> list[Fault]:
    """Return ``others`` with a fault that adds all controllers as voters.

    Sometimes the first leader, which was the only voter, is cut off soon afterwards, when it has
    followers to fetch from it; then only the ``others`` after that cut are returned.
    """
    second = 1_000_000_000
    at = second // 2 + draw_below(5 * second // 2, seed, "growth")
    order = draw(seed, "growth", "order")
    growth = Fault(at=at, kind="membership", shape="grow", duration=3 * second, draw=order)
    if not cuts or draw_below(2, seed, "growth", "cut"):
        return sorted([growth, *others], key=lambda fault: (fault.at, fault.kind))
    later = at + second + draw_below(3 * second, seed, "growth", "later")
    cut = Fault(at=later, kind="partition", shape="leader", duration=8 * second, draw=order)
    return [growth, cut, *(fault for fault in others if fault.at >= later + cut.duration)]


def _workload(seed: int, draws: Draws) -> str:
    """Return the workload of a campaign of all: in one run of six that of records, in five of six
    if brokers must store records, and never without brokers or in shells, where they cannot."""
    chosen = (draw_below(PRODUCE_SHARE, seed, "produce") == 0) is not (draws.records is True)
    if chosen and not draws.shells and draws.brokers != 0:
        return PRODUCE
    others = [name for name in drawn() if name != PRODUCE]
    return others[seed % len(others)]


def _controllers(seed: int) -> int:
    """Return the number of controllers, by seed: three to five, sometimes only one."""
    alone = draw_below(LONELY, seed, "alone") == 0
    return 1 if alone else 3 + draw_below(3, seed, "nodes")


@cache
def drawn() -> list[str]:
    """Return the workloads that a seed chooses from: KRaft's own, not those of other packages.

    The seeds of earlier campaigns keep their workloads: ``registration`` is chosen by name only.
    Others send its requests, too.
    """
    own = __name__.partition(".")[0]
    named = workloads().items()
    ours = {name for name, each in named if type(each).__module__.partition(".")[0] == own}
    return sorted(ours - {RegistrationWorkload.name})


def _load(workload: Workload, seed: int) -> tuple[int, float]:
    """Return the number of clients and the operations per second, by seed.

    A workload may limit the clients, and set the least rate for each.
    """
    threads = getattr(workload, "clients", _THREADS)
    count = threads[draw_below(len(threads), seed, "threads")]
    least = getattr(workload, "rate_per_client", 0.0) * count
    return count, max(_RATES[draw_below(len(_RATES), seed, "rate")], least)
