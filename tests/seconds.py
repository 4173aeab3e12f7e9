"""How long tests take, measured once, so that pytest-xdist starts the long ones first.

    python -m tests.seconds JUNIT    # after make test ARGS=--junitxml=JUNIT

Writes ``tests/seconds.json``: the seconds of each test function over all its parameters. Those
below ``LEAST`` seconds are left out. The figures only order the tests; none is a limit.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

MEASURED = Path(__file__).with_name("seconds.json")
LEAST = 4
OTHERWISE = 0.2
"""The seconds of a test that is not in the table."""


def key(nodeid: str) -> str:
    """Return the key of a test: its node id without parameters, with dots, as in JUnit files."""
    path, *names = nodeid.partition("[")[0].partition("@")[0].split("::")
    return ".".join([path.removesuffix(".py").replace("/", "."), *names])


def measured(file: Path = MEASURED) -> dict[str, int]:
    """Return the seconds of each test function in the table."""
    return {str(name): int(seconds) for name, seconds in json.loads(file.read_text()).items()}


def each(nodeids: Iterable[str], table: dict[str, int]) -> dict[str, float]:
    """Return the seconds of each of ``nodeids``; parameters of a function share its time evenly."""
    keys = {nodeid: key(nodeid) for nodeid in nodeids}
    shares = Counter(keys.values())
    return {
        nodeid: table[name] / shares[name] if name in table else OTHERWISE
        for nodeid, name in keys.items()
    }


def table_of(junit: Path) -> dict[str, int]:
    """Return the table for a JUnit file."""
    sums: defaultdict[str, float] = defaultdict(float)
    for case in ElementTree.parse(junit).iter("testcase"):  # noqa: S314  pytest wrote it
        name = f"{case.get('classname')}.{case.get('name')}".partition("[")[0].partition("@")[0]
        sums[name] += float(case.get("time", 0))
    return {name: round(seconds) for name, seconds in sorted(sums.items()) if seconds >= LEAST}


def main() -> None:
    """Write the table from the JUnit file that is named."""
    MEASURED.write_text(json.dumps(table_of(Path(sys.argv[1])), indent=0) + "\n")


if __name__ == "__main__":
    main()
