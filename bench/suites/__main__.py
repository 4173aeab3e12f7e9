"""Run a foreign suite against Apache Kafka and against ours, and record the result of each test.

``python -m bench.suites kafka-python`` starts one cluster after the other, writes
``bench/results/suites/kafka-python.jsonl`` and makes ``docs/client-suites.md``. Arguments after the
suite select tests; records of other tests are kept. It exits with 1 if a due test
(:mod:`bench.suites.page`) fails against ours.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.suites import kafka_python, librdkafka
from bench.suites.outcomes import Outcome, load, merge, save
from bench.suites.page import PAGE, RESULTS, is_due, page
from kraftwreck.oracle.quorum import KAFKA, OURS

SUITES = {"kafka-python": kafka_python.run, "librdkafka": librdkafka.run}


def _tell(kind: str, outcomes: list[Outcome]) -> None:
    for each in outcomes:
        seconds = each.ended - each.began
        print(f"{kind}: {each.outcome} {each.test} ({seconds:.1f} s) {each.said}", flush=True)


def main() -> int:
    """Run the suite; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--page", action="store_true", help="only make the page from the records")
    parser.add_argument("tests", nargs="*", help="parts of the names of tests, all by default")
    parser.add_argument("--against", choices=(KAFKA, OURS), help="only one kind of broker")
    parser.add_argument("--minutes", type=float, default=60.0, help="for the tests of each kind")
    options = parser.parse_intermixed_args()
    path = RESULTS / f"{options.suite}.jsonl"
    kinds = [options.against] if options.against else [KAFKA, OURS]
    for kind in [] if options.page else kinds:
        with tempfile.TemporaryDirectory(prefix="kraftwreck-suites-") as folder:
            run, limit_s = SUITES[options.suite], options.minutes * 60
            outcomes, sent = run(kind, Path(folder), options.tests, limit_s)
        _tell(kind, outcomes)
        rows = load(path)
        merge(rows, kind, outcomes, sent)
        save(path, rows)
    PAGE.write_text(page({name: load(RESULTS / f"{name}.jsonl") for name in SUITES}))
    rows = load(path)
    missed = [test for test, row in rows.items() if is_due(row) and row.get(OURS) != "passed"]
    for test in missed:
        print(f"not as with Apache Kafka: {test}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
