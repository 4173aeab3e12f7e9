"""Apache Kafka's dump tool reads segments, indexes and producer snapshots of user partitions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kraftwreck.nodes.log.partition.partition_log import PartitionLog
from kraftwreck.nodes.log.partition.producer_snapshot import ProducerEntry
from kraftwreck.oracle.dump import DUMP
from kraftwreck.oracle.java import Ran, run_tool
from tests.log.partition.batches import SMALL, TIME, fill, open_log

pytestmark = pytest.mark.oracle
COMPLAINT = re.compile(r"(?i)mismatch|not found|out of order|error|exception")
PRODUCERS = [ProducerEntry(4000, 2, 9, 25, 4, TIME), ProducerEntry(4001, 0, 3, 30, 0, TIME)]


def dump(*paths: Path) -> Ran:
    """Dump files; the tool may not complain of anything."""
    names = ",".join(map(str, paths))
    ran = run_tool(DUMP, "--deep-iteration", "--verify-index-only", "--files", names)
    said = ran.stdout + ran.stderr
    assert ran.status == 0, said
    assert not COMPLAINT.search(said), said
    return ran


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    log = PartitionLog(tmp_path / "orders-0", lambda: PRODUCERS, SMALL)
    fill(log, 60)
    fill(log, 60, epoch=3)
    log.truncate(log.end_offset - 40)
    fill(log, 60, epoch=4)
    return log


@pytest.mark.parametrize("orderly", [True, False])
def test_the_dump_tool_has_no_complaint(
    apache_kafka: None, log: PartitionLog, orderly: bool
) -> None:
    if orderly:
        log.close()
    else:
        # As after kill -9: entries in memory are lost, and the next start rebuilds the indexes.
        open_log(log.directory).close()
    files = sorted(log.directory.iterdir())
    kinds = {path.suffix for path in files}
    assert {".log", ".index", ".timeindex", ".snapshot"} <= kinds
    read = [path for path in files if path.suffix in (".log", ".index", ".timeindex")]
    assert len(read) > 12
    said = dump(*read).stdout
    assert said.count("isvalid: true") == len(list(log.batches(0)))
    assert "isvalid: false" not in said


def test_the_dump_tool_reads_producers(apache_kafka: None, log: PartitionLog) -> None:
    log.close()
    said = dump(*log.directory.glob("*.snapshot")).stdout
    assert said.count("producerId: 4000 producerEpoch: 2") == len(log.segments)
    assert "lastSequence: 9" in said and "lastOffset: 25" in said and "offsetDelta: 4" in said


def test_the_dump_tool_complains_of_a_wrong_entry(apache_kafka: None, log: PartitionLog) -> None:
    log.close()
    index = min(log.directory.glob("*.index"))
    data = bytearray(index.read_bytes())
    data[3] ^= 1
    index.write_bytes(data)
    with pytest.raises(AssertionError):
        dump(index)
