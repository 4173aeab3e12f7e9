"""``cluster doctor`` shows by which means hosts can be disturbed, and why not by others."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kraftwreck.cli.cluster import cluster
from kraftwreck.harness.remote.doctor import lines

WELL: dict[str, Any] = {
    "means": {"drops": "nftables", "packets": "tun"},
    "why": {"packets by netem": "tc: Error: Specified qdisc kind is unknown."},
}


def test_hosts_that_are_alike_share_their_lines() -> None:
    found = {"n1": WELL, "n2": {"error": "n2: no answer in 5 s"}, "n3": WELL}
    assert lines(found) == [
        "n1, n3",
        "  drops     nftables   partitions",
        "  packets   tun        slow, lossy, reordered, changed, throttled links",
        "  not packets by netem: tc: Error: Specified qdisc kind is unknown.",
        "n2",
        "  n2: no answer in 5 s",
    ]


def test_impossible_faults_are_listed_as_impossible() -> None:
    [_, line, *_] = lines({"n1": {"means": {"names": None}, "why": {}}})
    assert line == "  names     impossible name servers that fail"


@pytest.mark.cluster
def test_without_hosts_one_is_brought_up_for_a_moment(tmp_path: Path, netns_possible: None) -> None:
    runner = CliRunner(env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)})
    done = runner.invoke(cluster, ["doctor", "--json"])
    assert done.exit_code == 0, done.output
    means = json.loads(done.stdout)["netns"]["n1"]["means"]
    assert means["drops"] == means["names"] == "nftables"
    assert means["messages"] == "relay"
    assert means["packets"] in ("netem", "tun")
    assert "no namespace clusters" in runner.invoke(cluster, ["status"]).output
