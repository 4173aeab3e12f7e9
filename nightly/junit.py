"""The night as JUnit XML: one test case per cell, and per stored case of the corpus.

Invalid is a ``failure``. A harness failure, a flake, an unknown verdict or a suspicion that came
back is an ``error``. A test case per run would give a hundred thousand lines, too many for servers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as Tree

from kraftwreck.nightly.record import Record
from kraftwreck.nightly.totals import Night

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST_REDS = 20


def junit(night: Night, records: Sequence[Record]) -> bytes:
    """Return ``junit.xml``: a suite per build."""
    trees: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        build = "corpus" if record.kind == "corpus" else record.tree
        trees.setdefault(build, {}).setdefault(record.cell, []).append(record)
    root = Tree.Element("testsuites", name=_text(f"{night.name} {night.id}"))
    total = [0, 0, 0]
    for tree, cells in trees.items():
        suite = Tree.SubElement(root, "testsuite", name=_text(tree), timestamp=night.began)
        counted = [0, 0, 0]
        for cell, mine in cells.items():
            failures, errors = _case(suite, tree, cell, mine)
            counted = [counted[0] + 1, counted[1] + failures, counted[2] + errors]
        _count(suite, counted, sum(r.seconds for mine in cells.values() for r in mine))
        total = [a + b for a, b in zip(total, counted, strict=True)]
    _count(root, total, sum(record.seconds for record in records))
    Tree.indent(root)
    said: bytes = Tree.tostring(root, encoding="utf-8", xml_declaration=True)
    return said


def _count(element: Tree.Element, counted: Sequence[int], seconds: float) -> None:
    for name, value in zip(("tests", "failures", "errors"), counted, strict=True):
        element.set(name, str(value))
    element.set("skipped", "0")
    element.set("time", f"{seconds:.3f}")


def _case(suite: Tree.Element, tree: str, cell: str, records: Sequence[Record]) -> tuple[int, int]:
    """Add one test case; return the failures and errors that it counts for."""
    seconds = sum(record.seconds for record in records)
    case = Tree.SubElement(
        suite, "testcase", classname=_text(tree), name=_text(cell), time=f"{seconds:.3f}"
    )
    broken = [record for record in records if record.klass == "system"]
    rest = [
        r for r in records if r.klass != "system" and (r.red or r.raised or r.valid == "unknown")
    ]
    for kind, reds in (("failure", broken), ("error", rest)):
        if reds:
            problem = Tree.SubElement(
                case,
                kind,
                type=reds[0].klass or "unknown",
                message=_text(f"{len(reds)} of {len(records)} runs: {reds[0].why}"),
            )
            problem.text = _text("\n".join(_explain(record) for record in reds[:_MOST_REDS]))
            break  # Most readers of such files accept only one.
    return int(bool(broken)), int(bool(rest) and not broken)


def _explain(record: Record) -> str:
    return f"run {record.n}, seed {record.seed}: {record.why}\n  repeat: {record.repeat}"


def _text(text: str) -> str:
    """Replace the characters in ``text`` that XML cannot contain."""
    return _NOT_XML.sub("\ufffd", text)
