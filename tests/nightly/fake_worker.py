"""Stands for the process of a run: answers as the file in FAKE_RULES says, by seed and attempt.

A rule is a list, one entry per attempt (the last one counts for all later ones): ``answer``
(fields of an Answer), ``exit``, ``print``, ``sleep``, ``signal``. Every call is logged.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from kraftwreck.nightly.child import die_with_night


def main() -> int:
    request = json.loads(sys.stdin.read())
    die_with_night()
    rules_file = Path(os.environ["FAKE_RULES"])
    log = rules_file.with_name("calls.jsonl")
    seed = str(request["seed"]) if request["do"] != "case" else Path(request["given"]).stem
    before = log.read_text().splitlines() if log.exists() else []
    attempt = sum(json.loads(line)["seed"] == seed for line in before)
    called = {name: request.get(name) for name in ("do", "cluster", "keep", "mutant", "patch")}
    with log.open("a") as file:
        file.write(json.dumps({"seed": seed, "pid": os.getpid(), **called}) + "\n")
    if request["do"] == "heal":
        return 0
    all_rules = json.loads(rules_file.read_text())
    rules = all_rules.get(seed) or all_rules.get("*") or [{}]
    rule = rules[min(attempt, len(rules) - 1)]
    print(rule.get("print", "a run"), flush=True)
    time.sleep(rule.get("sleep", 0))
    if "signal" in rule:
        os.kill(os.getpid(), rule["signal"])
    if "exit" in rule:
        return int(rule["exit"])
    answer = {"valid": True, "digest": f"d{seed}", "sim_s": 1.0, "workload": "register"}
    answer |= {"repeat": f"kraftwreck sim --seeds {seed}", **rule.get("answer", {})}
    if answer["valid"] is False and request.get("case"):
        Path(request["case"]).write_text("{}")
    Path(request["answer"]).write_text(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
