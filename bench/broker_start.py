"""The start of a broker after kill -9 with many logs: CPU time and memory.

``python -m bench.broker_start [--partitions 200] [--mib 2048]`` writes logs as a broker does, opens
them in a process of its own as after kill -9, and prints what that took.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import tempfile
import time
from pathlib import Path

from kraftwreck.nodes.log.batch import encode_batch, parse_header
from kraftwreck.nodes.log.partition.settings import LogSettings
from kraftwreck.nodes.replication import effects as out
from kraftwreck.nodes.replication.headers import batch_of
from kraftwreck.nodes.server.partition_files import PartitionFiles

BATCH_BYTES = 16 << 10


def _files(folder: Path) -> PartitionFiles:
    return PartitionFiles(folder, lambda _: "topic", LogSettings())


def _key(number: int) -> tuple[bytes, int]:
    return b"t" * 16, number


def write(folder: Path, partitions: int, mib: int) -> None:
    """Write logs of ``mib`` MiB in all and leave them as a killed process does."""
    files = _files(folder)
    record = encode_batch(0, 0, 1_700_000_000_000, [(None, os.urandom(BATCH_BYTES))], False)
    header = parse_header(record)
    count = (mib << 20) // len(record) // partitions
    for number in range(partitions):
        files.carry_out(out.OpenLog(_key(number)))
        for offset in range(count):
            batch = batch_of(header, bytearray(record)).placed(offset, 0)
            files.carry_out(out.Append(_key(number), batch))


def start(folder: Path, partitions: int) -> None:
    """Open all logs, and print the cost."""
    before = time.process_time()
    files = _files(folder)
    for number in range(partitions):
        files.carry_out(out.OpenLog(_key(number)))
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{time.process_time() - before:.1f} s of CPU time, {rss} MB of RSS at most")


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--mib", type=int, default=2048)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="kraftwreck-start-") as folder:
        for target, arguments in (
            (write, (Path(folder), options.partitions, options.mib)),
            (start, (Path(folder), options.partitions)),
        ):
            process = context.Process(target=target, args=arguments)
            process.start()
            process.join()


if __name__ == "__main__":
    main()
