"""Known bugs of real systems: found by ordinary runs, and not found where they must not be.

    sudo .venv/bin/python -m bench.wild STORE [--runs N] [--only WORDS] [--missing]
    .venv/bin/python -m bench.wild STORE --keep [--tree FOLDER]

Each test is a ``kraftwreck run`` with the default faults, once for each seed from 1. Its outcome is
a line of ``STORE/matrix.jsonl``; runs with a line are not repeated. ``--runs`` limits the runs of
each test, ``--only`` chooses those whose command line has these words, ``--missing`` leaves out
those that the source tree has records of. Exits with 1 if a test found less, or more, than it must.

``--keep`` adds the runs of STORE to the records of the source tree (:mod:`bench.wild_records`), and
makes docs/wild.md and the table of README.md from all records.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import wild_records
from bench.hosts_matrix import records, run
from bench.wild_records import Record
from kraftwreck.reports.store.verdict_table import placed, table
from tests import tutorial

SYSTEMS = Path(__file__).parent / "wild_systems"
ENTRY_POINTS = """\
[kraftwreck.systems]
apache-kafka = apache_kafka:SYSTEM
etcd = etcd_clients:SYSTEM
hazelcast = hazelcast_queue:SYSTEM
nats-jetstream = nats_jetstream:SYSTEM
pysyncobj = pysyncobj_store:SYSTEM
redis-sentinel = redis_sentinel:SYSTEM
zookeeper = zookeeper:SYSTEM

[kraftwreck.checkers]
produced = kafka_records:check
"""
FILE = "matrix.jsonl"
TREE = Path(__file__).parent.parent
RECORDS, PAGE, FRONT = "bench/results/wild/runs.jsonl", "docs/wild.md", "README.md"


@dataclass(frozen=True, slots=True)
class Test:
    """A command line and how many of its ``runs`` find the bug, at least and at most."""

    title: str
    words: tuple[str, ...]
    runs: int
    least: int
    most: int

    def seeded(self, seed: int) -> Seeded:
        """Return the run with this seed."""
        return Seeded(self.title, (*self.words, "--nodes", "3", "--seed", str(seed)))


@dataclass(frozen=True, slots=True)
class Seeded:
    """One run of a test."""

    title: str
    words: tuple[str, ...]

    def arguments(self, cluster: str) -> list[str]:
        """Return the words that follow ``kraftwreck``."""
        return ["run", *self.words, "-c", cluster]


ETCD = "[etcd: API guarantees](https://etcd.io/docs/v3.4/learning/api_guarantees/)"
REDIS = "[Redis: Sentinel](https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/)"
DIFFER = "[etcd 13766](https://github.com/etcd-io/etcd/issues/13766)"
STALE = (
    "[ZooKeeper: consistency guarantees]"
    "(https://zookeeper.apache.org/doc/r3.8.4/zookeeperInternals.html#sc_consistency)"
)
UNCLEAN = (
    "[Kafka: `acks`](https://kafka.apache.org/documentation/#producerconfigs_acks) and"
    " [`unclean.leader.election.enable`]"
    "(https://kafka.apache.org/documentation/#brokerconfigs_unclean.leader.election.enable)"
)
TERMS = "[PySyncObj 201](https://github.com/bakwc/PySyncObj/issues/201)"
SYNCS = "[nats-server 7564](https://github.com/nats-io/nats-server/issues/7564)"
MERGES = (
    "[Hazelcast: split-brain recovery]"
    "(https://docs.hazelcast.com/hazelcast/5.6/network-partitioning/split-brain-recovery)"
)
BUGS = {
    "apache-kafka": (
        "With `acks=1` a leader acknowledges records that no other replica has. With unclean"
        " elections a replica that lags may lead. Both lose acknowledged records, as documented:"
        f" {UNCLEAN}. A broker answers from the metadata that it has applied, so its answers may be"
        " stale; reads follow a marker that the client has committed, unless `sync=false`. Brokers"
        " have three replicas of each partition and `min.insync.replicas=2`. Silent brokers and"
        " lagging replicas are given up after 2 s. A host has one process for both roles, or"
        " two with `roles=apart`. One of the three runs with `acks=1` also had a"
        " `nonmonotonic-send`; the records do not say which."
    ),
    "etcd": (
        f"Serializable reads, which one member answers alone, may be stale: {ETCD}. In v3.5.0 to"
        " v3.5.2 a member that is killed during a large transaction may skip it for good and differ"
        f" from the others at the same position of the log: {DIFFER}."
    ),
    "hazelcast": (
        "Members that do not see each other become clusters of their own, and both serve. When they"
        f" merge, a policy decides which items remain: {MERGES}. Acknowledged items are lost, and"
        " items leave the queue twice. With split-brain protection a member without a majority"
        " refuses operations: no run lost an item, but items still left the queue twice."
        " Each item has a copy on all three members. Silent members are given up after 3 s instead"
        " of 60 s. A drain waits until all members are one cluster again."
    ),
    "nats-jetstream": (
        "A server acknowledges a message before it is on the disk: by default it syncs every two"
        " minutes. Machines that lose power one after the other, and boot, may lose acknowledged"
        f" messages, or the whole stream: {SYNCS}. With `sync_interval: always` it syncs first."
    ),
    "pysyncobj": (
        "Members forget their term when they restart. After a restart of all, one that missed"
        f" acknowledged writes may still win an election, and removes them: {TERMS}."
    ),
    "zookeeper": (
        f"A server answers reads from what it has applied, so they may be stale: {STALE}. A lock is"
        " an ephemeral node, and goes with the session of its holder, which lasts 4 s without a"
        " word. A release whose session has expired is `info`: two holders show if another process"
        " acquired the lock before that release began."
    ),
    "redis-sentinel": (
        f"A primary that is cut off acknowledges writes that are gone after the fail-over: {REDIS}."
        " Kills alone suffice if they follow each other within seconds. With `WAIT 2` fewer writes"
        " are acknowledged; readers still see others, and these may be gone later."
    ),
}
TRIED = (
    "etcd, serializable reads, beside other work (load 8 to 9): 5 runs, seeds 1 to 5, four with"
    " stale reads, one valid. In its longest partition etcd elected a leader only after 5 s, so"
    " there was nothing newer to read.",
    "NATS 2.12.1, `-w set -t 60` with the default setting: `-n host` 4 runs, one lost messages;"
    " `-n host,partition` 1 run, valid. Machines crash too seldom in a minute. Seed 3 of the tests"
    " with `-t 180` ran twice at the same time; the table has the later run of each. The earlier"
    " one of v2.15.2 was valid, the others had the same verdicts.",
    "Hazelcast with split-brain protection, seed 1, in an earlier run: 561 operations, valid.",
    "NATS 2.10.22 ([nats-server 6888](https://github.com/nats-io/nats-server/issues/6888): a stream"
    " is lost after kill -9), `-w set -n kill -t 180`: 1 run, 2,366 operations, 18 kills, valid;"
    " `-n kill,terminate,restart -t 90`: 1 run, 1,193 operations, valid.",
    "etcd v3.6.8 ([etcd 20418](https://github.com/etcd-io/etcd/issues/20418): stale reads after"
    " pauses), added to the options, `-n pause -t 60 --rate 600 --concurrency 60`: 1 run, 14,042"
    " operations, 9 pauses, valid.",
    "etcd v3.5.0, `-w txn -n kill -t 120 --rate 400 --concurrency 40` with transactions of at most"
    " 4: 1 run, 13,356 operations, 11 kills, no difference was looked for between members, valid.",
    "PySyncObj 0.3.14, `-n kill -t 60` with registers: 1 run, 676 operations, 8 kills, valid.",
    "PySyncObj 0.3.14, `-w set -n kill,restart -t 180`: 1 run, 971 operations, 11 kills, 10"
    " restarts, valid. All members must be down at once, and start apart.",
    "ZooKeeper 3.8.4, `-w register -n kill,partition`, reads after `sync`: 10 runs with `-t 30` at"
    " a load of 10, and in one the servers differed for good. A server had written a snapshot as"
    " leader, with a write that was never committed. Told to truncate, it cut its log and then"
    " loaded that snapshot again (this looks like"
    " [ZOOKEEPER-1549](https://issues.apache.org/jira/browse/ZOOKEEPER-1549))."
    " Ten runs with `-t 60`, seeds 1 to 10, were valid.",
    "Apache Kafka, `acks=1` and unclean elections, `-w produce -t 60`, silent brokers given up"
    " after 4 s: 2 runs, one lost records, one was valid. Most faults ended before a leader was"
    " replaced.",
)
"""Runs that did not find a bug that is there; by hand, on the machine of the table."""
PICTURES = {
    "etcd": "two members at one position of the log, with different states",
    "nats-jetstream": "an acknowledged element is in no later read: the stream is empty",
    "redis-sentinel": "an acknowledged element is in no later read",
}
"""The contents of the first screen of a report (:mod:`bench.wild_pictures`)."""
COLUMNS = (
    "test", "command", "seeds", "invalid", "valid", "unknown", "first one after", "first anomaly",
)  # fmt: skip
_LOAD = ("--rate", "400", "--concurrency", "60", "--transaction", "128")
_LARGE = ("-w", "txn", "-n", "kill", "-t", "120", *_LOAD)
_RESTARTS = ("-w", "set", "-n", "partition,kill,restart,terminate", "-t", "180")
_RECORDS = ("apache-kafka", "-w", "produce")
_UNCLEAN = ("--option", "acks=1", "--option", "unclean=true")
_SETTINGS = ("apache-kafka", "-w", "register")
_TOPICS = ("apache-kafka", "-w", "set", "--option", "roles=apart")
_JAVA = ("--option", "client=java")
_GO, _STALE = ("etcd", "--option", "client=go"), ("--option", "serializable=true")
_QUEUE = ("hazelcast", "-w", "queue", "-n", "partition", "-t", "60")
_JETSTREAM = ("nats-jetstream", "-w", "set", "-n", "host", "-t", "180")
_REDIS = ("redis-sentinel", "-w", "set", "-t", "60")
TESTS = (
    Test("serializable reads", ("etcd", "--option", "serializable=true", "-t", "60"), 5, 5, 5),
    Test("linearizable reads", ("etcd", "-t", "60"), 10, 0, 0),
    Test("partitions, kills and pauses", _REDIS, 10, 10, 10),
    Test("kills alone", (*_REDIS, "-n", "kill"), 10, 0, 10),
    Test("v3.5.0, large transactions", ("etcd", "--option", "version=3.5.0", *_LARGE), 10, 7, 10),
    Test("v3.5.2, large transactions", ("etcd", "--option", "version=3.5.2", *_LARGE), 10, 7, 10),
    Test("v3.5.9, the fixed version", ("etcd", "--option", "version=3.5.9", *_LARGE), 10, 0, 0),
    Test("`WAIT 2` after each write", (*_REDIS, "--option", "wait=2"), 10, 0, 10),
    Test("v0.3.14", ("pysyncobj", "--option", "version=0.3.14", *_RESTARTS), 10, 5, 10),
    Test("v0.3.17, the fixed version", ("pysyncobj", *_RESTARTS), 10, 0, 0),
    Test("v2.12.1", _JETSTREAM, 10, 5, 10),
    Test("v2.12.1, syncing always", (*_JETSTREAM, "--option", "sync=always"), 10, 0, 0),
    Test("v2.15.2", (*_JETSTREAM, "--option", "version=2.15.2"), 5, 0, 5),
    Test("a queue", _QUEUE, 5, 4, 5),
    Test("with split-brain protection", (*_QUEUE, "--option", "protection=true"), 5, 0, 5),
    Test("reads without `sync`", ("zookeeper", "--option", "sync=false", "-t", "60"), 5, 3, 5),
    Test("reads after `sync`", ("zookeeper", "-t", "60"), 10, 0, 0),
    Test("locks by ephemeral nodes", ("zookeeper", "-w", "lock", "-t", "60"), 5, 0, 5),
    Test("a queue", ("zookeeper", "-w", "queue", "-t", "60"), 10, 0, 0),
    Test("records, `acks=all`", (*_RECORDS, "-t", "60"), 20, 0, 0),
    Test("records, `acks=1` and unclean elections", (*_RECORDS, *_UNCLEAN, "-t", "60"), 5, 4, 5),
    Test("registers, reads after a marker", (*_SETTINGS, "-t", "60"), 10, 0, 0),
    Test("registers, reads at once", (*_SETTINGS, "--option", "sync=false", "-t", "60"), 5, 4, 5),
    Test("topics as a set, roles apart", (*_TOPICS, "-t", "60"), 5, 0, 0),
    Test("linearizable reads, client in Go", (*_GO, "-t", "60"), 5, 0, 0),
    Test("serializable reads, client in Go", (*_GO, *_STALE, "-t", "60"), 5, 4, 5),
    Test("records, `acks=all`, client in Java", (*_RECORDS, *_JAVA, "-t", "60"), 5, 0, 0),
    Test("records, `acks=1`, client in Java", (*_RECORDS, *_UNCLEAN, *_JAVA, "-t", "60"), 5, 4, 5),
)


@contextmanager
def installed() -> Iterator[None]:
    """Let ``kraftwreck`` find the systems of this page: the tutorial's and those beside it."""
    with tempfile.TemporaryDirectory(prefix="kraftwreck-wild-") as name:
        folder = Path(name)
        facts = folder / "wild-1.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: wild\nVersion: 1\n")
        (facts / "entry_points.txt").write_text(ENTRY_POINTS)
        shutil.copytree(SYSTEMS, folder, ignore=shutil.ignore_patterns("__*"), dirs_exist_ok=True)
        shutil.copy2(tutorial.write(folder) / "my_etcd.py", folder)
        before = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [name, before]))
        try:
            yield
        finally:
            os.environ["PYTHONPATH"] = before


def run_all(store: Path, most: int | None, only: str, kept: Sequence[Record]) -> None:
    """Run what ``store`` and ``kept`` do not have yet, at most ``most`` runs of each test with
    ``only``."""
    store.mkdir(parents=True, exist_ok=True)
    lines = [wild_records.outcome(line) for line in records(store / FILE)]
    known = {(tuple(record["words"]), record["seed"]) for record in (*lines, *kept)}
    for place, test in enumerate(TESTS):
        if only not in " ".join(test.words):
            continue
        for seed in range(1, min(test.runs, most or test.runs) + 1):
            if (test.words, seed) in known:
                continue
            record = run(place * 1000 + seed, test.seeded(seed), "netns", store / "runs")
            with (store / FILE).open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(f"{record['valid']!s:8}{record['wall_s']:6.1f} s  {record['command']}")
            sys.stdout.flush()


def of_test(found: Sequence[Record], test: Test) -> list[Record]:
    """Return the records of ``test`` by seed."""
    mine = [record for record in found if tuple(record["words"]) == test.words]
    return sorted(mine, key=lambda record: int(record["seed"]))


def as_promised(test: Test, of: Sequence[Record]) -> bool:
    """Return whether all runs that were made have a verdict, and enough of them found the bug."""
    hits = sum(record["valid"] is False for record in of)
    missed = len(of) - hits
    decided = all(record["valid"] in (True, False) for record in of)
    return decided and missed <= test.runs - test.least and hits <= test.most


def page(found: Sequence[Record]) -> str:
    """Return docs/wild.md for these records."""
    lines = [
        "# Known bugs of real systems",
        "",
        "Made by `make test-wild`: ordinary workloads and default faults against systems that",
        "nobody here wrote. A verdict is that of a checker. Seconds are those of the clock for all",
        "that a run does, on two cores with other work beside it. The records of all runs are in",
        "`bench/results/wild/runs.jsonl`; new runs are added to them.",
    ]
    for system, bug in BUGS.items():
        lines += ["", f"## {system}", "", bug, ""]
        lines += [f"| {' | '.join(COLUMNS)} |", "|---|---|---|--:|--:|--:|--:|---|"]
        for test in TESTS:
            of = of_test(found, test)
            if of and test.words[0] == system:
                lines.append(_row(test, of))
        if system in PICTURES:
            lines += ["", f"![A report: {PICTURES[system]}.]({picture(system)})"]
    lines += ["", "## Also tried", "", *(f"- {line}" for line in TRIED)]
    return "\n".join(lines) + "\n"


def picture(system: str) -> str:
    """Return the picture of a report of ``system``, as a path in ``docs``."""
    return f"pictures/wild-{system}.png"


def _row(test: Test, of: Sequence[Record]) -> str:
    hits = [record for record in of if record["valid"] is False]
    valid = sum(record["valid"] is True for record in of)
    seeds = ", ".join(str(record["seed"]) for record in of)
    after, first = "–", "–"
    if hits:
        seconds = [record["wall_s"] for record in of[: of.index(hits[0]) + 1]]
        after = "?" if None in seconds else f"{sum(seconds):.0f} s"
        first = hits[0]["anomaly"].replace("|", "\\|")
    command = f"`kraftwreck run {' '.join(test.words)} --nodes 3`"
    unknown = len(of) - len(hits) - valid
    cells = (test.title, command, seeds, len(hits), valid, unknown, after, first)
    return f"| {' | '.join(map(str, cells))} |"


def keep(store: Path, tree: Path) -> None:
    """Add the runs of ``store`` to the records of ``tree``; make its two pages from all records."""
    new = wild_records.of_store(store, FILE)
    kept = wild_records.merged(records(tree / RECORDS), new)
    wild_records.write(tree / RECORDS, kept)
    (tree / PAGE).write_text(page(kept))
    made = table(map(wild_records.summary, kept))
    front = tree / FRONT
    front.write_text(placed(front.read_text(), made, FRONT))


def main() -> None:
    """Run the tests, or keep their records."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("store", type=Path)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--only", default="")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--tree", type=Path, default=TREE)
    asked = parser.parse_args()
    if asked.keep:
        keep(asked.store, asked.tree)
        return
    kept = records(asked.tree / RECORDS) if asked.missing else []
    with installed():
        run_all(asked.store, asked.runs, asked.only, kept)
    # Runs that failed and left no folder are judged too, though nothing of them is kept.
    found = [wild_records.outcome(line) for line in records(asked.store / FILE)]
    wrong = [test.title for test in TESTS if not as_promised(test, of_test(found, test))]
    for title in wrong:
        print(f"{title}: not as it must be", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
