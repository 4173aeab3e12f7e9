"""The verdict as JUnit XML, for continuous integration, with one test case per checker.

Invalid is a ``failure``; unknown is an ``error``, since nothing was proven. Suspicions are
properties of the suite.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as Tree

from kraftwreck.checkers import strength
from kraftwreck.histories.verdict import CheckerResult
from kraftwreck.reports import words
from kraftwreck.reports.run_folder import load_test, load_verdict

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
MAX_ANOMALIES = 100


def write_junit(run_folder: Path) -> Path:
    """Write ``junit.xml`` into ``run_folder`` and return its path.

    The properties ``seed`` and ``repeat`` describe how to repeat the run, ``strength`` how much
    evidence the verdict is based on, each ``suspicion`` a finding that proves nothing. A run
    without a verdict has one test case, an error. Raises
    :class:`~reports.run_folder.RunFolderError` when it is not a run folder.
    """
    folder = run_folder.resolve()
    test = load_test(folder)
    notes: list[str] = []
    verdict = load_verdict(folder, notes)
    name = words.run_name(test)
    checkers = (
        verdict.checkers
        if verdict is not None
        else {"checkers": CheckerResult(valid="unknown", error=" ".join(notes))}
    )
    suite = Tree.Element(
        "testsuite",
        name=_text(name),
        tests=str(len(checkers)),
        failures=str(sum(c.valid is False for c in checkers.values())),
        errors=str(sum(c.valid == "unknown" for c in checkers.values())),
        skipped="0",
    )
    if isinstance(test.get("started_wall"), str):
        suite.set("timestamp", _text(test["started_wall"]))
    properties = Tree.SubElement(suite, "properties")
    for key, value in (
        ("seed", str(test.get("seed"))),
        ("repeat", words.repeat_command(test)),
        ("run", folder.name),
        *(("strength", text) for text in _strength(checkers)),
        *(("suspicion", text) for text in _suspicions(checkers)),
    ):
        Tree.SubElement(properties, "property", name=key, value=_text(value))
    for checker, result in checkers.items():
        case = Tree.SubElement(suite, "testcase", classname=_text(name), name=_text(checker))
        if result.valid is True:
            continue
        kind = "failure" if result.valid is False else "error"
        problem = Tree.SubElement(
            case,
            kind,
            type="invalid" if result.valid is False else "unknown",
            message=_text(words.checker_reason(result)),
        )
        problem.text = _text(_explain(result))
    path = folder / "junit.xml"
    temporary = path.with_name("junit.xml.tmp")
    tree = Tree.ElementTree(suite)
    Tree.indent(tree)
    tree.write(temporary, encoding="utf-8", xml_declaration=True)
    temporary.replace(path)
    return path


def _strength(checkers: dict[str, CheckerResult]) -> list[str]:
    """Return the measured strength of the verdict as text, if there is one."""
    measured = checkers.get(strength.NAME)
    return [strength.sentence(measured.stats)] if measured is not None and measured.stats else []


def _suspicions(checkers: dict[str, CheckerResult]) -> list[str]:
    return [
        f"{name}: {suspicion.type}: {suspicion.explanation} {suspicion.why}"
        for name, result in checkers.items()
        for suspicion in result.suspicions[:MAX_ANOMALIES]
    ]


def _explain(result: CheckerResult) -> str:
    lines = [result.error] if result.error else []
    for anomaly in result.anomalies[:MAX_ANOMALIES]:
        proof = f" (operations {', '.join(map(str, anomaly.operations[:20]))})"
        lines.append(f"{anomaly.type}: {anomaly.explanation}{proof if anomaly.operations else ''}")
    if len(result.anomalies) > MAX_ANOMALIES:
        lines.append(f"and {len(result.anomalies) - MAX_ANOMALIES} more, see results.json")
    return "\n".join(lines)


def _text(text: str) -> str:
    """Replace the characters in ``text`` that XML cannot contain."""
    return _NOT_XML.sub("\ufffd", text)
