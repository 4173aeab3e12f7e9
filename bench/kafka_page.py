"""The page ``bench/results/kafka.md``: each script writes its section and leaves the others."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kraftwreck.oracle.java import find_java
from kraftwreck.oracle.release import kafka_version

PAGE: Final = Path(__file__).with_name("results") / "kafka.md"
ROOT: Final = Path(__file__).resolve().parents[1]
_HEAD: Final = """\
# Beside Apache Kafka

Controllers of Apache Kafka and ours, alternately in one run on one machine, with the same
time-outs, the same client and the same requests. Apache Kafka runs with the heap and the collector
of its own start script, and logs warnings only. Both flush what they append before they promise it.
"""


def taken() -> str:
    """Return date, machine and versions of the figures; call it before measuring, for the load."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=no", "nodes"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout.strip()
    java = subprocess.run(
        [find_java(), "-version"], capture_output=True, text=True
    ).stderr.splitlines()[0]
    return (
        f"Taken on {datetime.now(UTC):%Y-%m-%d} at commit {commit or 'unknown'}"
        f"{' with changes in nodes/' if changed else ''} by\n"
        f"Apache Kafka {kafka_version()} on {java},\n"
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load average "
        f"{os.getloadavg()[0]:.1f} before."
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_section(name: str, text: str, page: Path = PAGE) -> None:
    """Replace the text of section ``name``, between its marks, by ``text``."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    content = page.read_text("utf-8") if page.exists() else _HEAD
    section = f"{begin}\n{text.strip()}\n{end}"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if pattern.search(content):
        content = pattern.sub(lambda _: section, content)
    else:
        content = f"{content.rstrip()}\n\n{section}\n"
    page.write_text(content, "utf-8")
