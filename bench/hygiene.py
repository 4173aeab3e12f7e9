"""Checks that nothing is left after the control process is killed with -9 during any fault.

    sudo .venv/bin/python bench/hygiene.py [--points 200] [--first 0] [--results FILE] [--plain]

Every point is one ``kraftwreck run`` with all fault families, by a seed that lets each of them
strike within the first seconds. The run is killed with -9 at a moment drawn from the point's
number: during the set-up, during the faults, or while they are healed. Then the state of the
machine is compared with its state before. There are three ways of recovery, and with ``--plain``
one:

* ``alone``: the run has namespace hosts of its own, which must disappear by themselves;
* ``heal``: hosts brought up by hand (``-c hosts:FILE``). After ``kraftwreck cluster heal`` the
  whole state of each host is compared, except for the nodes, which stay up;
* ``next``: likewise, but the next run on the hosts, without faults, cleans up;
* ``plain``: as ``alone``, but an unprivileged user does all of it.

A point runs in network, mount and process namespaces of its own with an empty ``/tmp`` (so this
checkout must be elsewhere). So the whole state can be compared, and other processes do not disturb
it. ``FILE`` gets a line per point; points with a line are not run again. Prints a table; exits with
1 if anything was left.
"""

from __future__ import annotations

import argparse
import ctypes
import getpass
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.hosts import load_inventory
from kraftwreck.harness.remote.session import Remote
from kraftwreck.nemesis import generator
from kraftwreck.nemesis.registry import families
from kraftwreck.nemesis.scope import Scope
from kraftwreck.nodes.draw import draw_below

ROOT = Path(__file__).resolve().parents[1]
WAYS = ("alone", "heal", "next")
PLAIN = "plain"
NOBODY = 65534
NEVER_PLAIN = frozenset({"roles-slow"})
"""Families that the hosts of an unprivileged user may not have."""
NODES = ("n1", "n2", "n3", "n4", "n5")
BROKERS = 2
SOON_S = 9.0
"""By then each family has struck, or waits for its transition."""
PATIENCE_S = 60.0
TOLERANCE_S = 0.05
TEMPORARY = Path("/tmp")  # noqa: S108 - an empty one, of the point's own
RUNTIME = TEMPORARY / "runtime"
STORE = TEMPORARY / "store"
JAVA = {f"hsperfdata_{getpass.getuser()}", "hsperfdata_nobody"}
State = dict[str, list[str]]


# --- state of the machine -------------------------------------------------------------------


def output(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return sorted(line.rstrip() for line in done.stdout.splitlines())


def machine(clusters: set[str], *, nodes_go_on: bool) -> State:
    """Return the state of this machine, by kind.

    Control groups and loop devices are shared by all, so only those of ``clusters`` are listed.
    Live hosts are inspected themselves.
    """
    reap()
    known = "kraftwreck-nodes" if nodes_go_on else "\0"
    ours = {str(os.getpid())}
    listed = without(known, output("ps", "-eo", "pid=,ppid=,args="))
    return {
        "interfaces": output("ip", "-br", "link"),
        "addresses": output("ip", "-br", "addr"),
        "routes": output("ip", "route", "show", "table", "all") + output("ip", "rule"),
        "neighbours": output("ip", "neigh"),
        "rules": output("nft", "list", "ruleset"),
        "queues": output("tc", "qdisc"),
        "mounts": sorted(Path("/proc/self/mounts").read_text().splitlines()),
        "namespaces": output("lsns", "-rno", "NS,TYPE"),
        "processes": [
            f"{pid} {line}"
            for pid, line in listed
            if pid not in ours and not line.startswith(("ps", "lsns"))
        ],
        "loops": [line for line in output("losetup", "-a") if _names(line, clusters)],
        "groups": [
            str(path)
            for path in Path("/sys/fs/cgroup").glob("*/kraftwreck-*")
            if _names(path.name, clusters)
        ],
        "files": sorted(_files(TEMPORARY)),
        "kernel clock": [f"{name} {value}" for name, value in kernel_clock().items()],
    }


def without(word: str, listed: list[str]) -> list[tuple[str, str]]:
    """Return pid and command line of processes without ``word``, from lines with pid, parent and
    command line. The parent of one that has it is its keeper, which ends with it."""
    rows = [line.split(None, 2) for line in listed]
    left_out = {each for pid, parent, line in rows if word in line for each in (pid, parent)}
    return [(pid, line) for pid, _, line in rows if pid not in left_out]


def _files(folder: Path) -> Iterator[str]:
    """Yield all files below ``folder``; files may disappear meanwhile."""
    for here, folders, files in os.walk(folder):
        # Java leaves a directory for each user in /tmp.
        folders[:] = [
            name for name in folders if name not in {"nodes", *JAVA} and Path(here, name) != STORE
        ]
        yield from (str(Path(here, name)) for name in (*folders, *files))


def _names(text: str, clusters: set[str]) -> bool:
    return any(cluster in text for cluster in clusters)


def reap() -> None:
    """Collect ended processes: we are the init process here, and orphans are ours."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def kernel_clock() -> dict[str, int]:
    """Return the settings of the kernel's clock, read by adjtimex(2)."""
    buffer = (ctypes.c_long * 64)()  # modes = 0: nothing is changed
    ctypes.CDLL(None).adjtimex(buffer)
    return {"tick": buffer[11]}


def host_state(remote: Remote) -> State:
    """Return the state of a host, without its node and transient values."""

    def ask(command: str) -> list[str]:
        return sorted(remote.run(["sh", "-c", command], check=False).text.splitlines())

    passing = re.compile(r"(ps|sh -c|sort|sshd|sshd-session|sshd-auth|/usr/sbin/sshd)\b")
    node = "kraftwreck-nodes"
    kept = ("kraftwreck-main.pid", "kraftwreck-services")
    groups = "cd /run/kraftwreck-cgroups && grep -H . */cpu.cfs_quota_us */memory.limit_in_bytes"
    return {
        "interfaces": ask("ip -br link; ip -br addr"),
        "routes": ask("ip route show table all; ip rule"),
        "rules": ask("nft list ruleset"),
        "queues": ask("tc qdisc"),
        "mounts": ask("cat /proc/mounts"),
        "processes": [
            line
            for _, line in without(node, ask("ps -eo pid=,ppid=,args="))
            if not passing.match(line.removeprefix("sshd: ")) and not line.startswith("sshd")
        ],
        "node": ask("for p in $(pgrep -f '[k]raftwreck-nodes'); do "
                    "ps -o stat= -p $p | cut -c1 | grep T; "
                    "grep 'open files' /proc/$p/limits; done | sort -u"),
        "groups": ask(groups),
        "run": [name for name in ask("ls /run") if not name.startswith(kept)],
    }  # fmt: skip


def different(before: State, after: State) -> list[str]:
    """Return the differences, a line each: new entries (+) and missing ones (-)."""
    found = []
    for kind in before:
        was, now = before[kind], after[kind]
        found += [f"{kind} + {line}" for line in now if line not in was]
        found += [f"{kind} - {line}" for line in was if line not in now]
    return found


def settle(look: Callable[[], list[str]]) -> list[str]:
    """Wait until nothing is left, for as long as the kernel may take; return the rest."""
    deadline = time.monotonic() + PATIENCE_S
    while (left := look()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


# --- one point ------------------------------------------------------------------------------


def kraftwreck(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kraftwreck", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def plan(number: int, plain: bool) -> dict[str, Any]:
    """Return the plan of a point, drawn by its number."""
    way = PLAIN if plain else WAYS[number % len(WAYS)]
    never = {"alone": frozenset(), PLAIN: NEVER_PLAIN}.get(way, frozenset({"host"}))
    names = tuple(name for name in families() if name not in never)
    # One run in four ends by itself, unless it is killed first.
    seconds, longest = ((12, 24_000), (60, 12_000))[draw_below(4, number, "length") > 0]
    set_up = draw_below(5, number, "set-up") == 0
    return {
        "point": number,
        "way": way,
        "faults": ",".join(names),
        "seed": seed_of(names, seconds, number),
        "seconds": seconds,
        "since": "start" if set_up else "ready",
        "moment_ms": draw_below(8_000 if set_up else longest, number, "moment"),
        "spark": draw_below(8, number, "spark") == 0,
    }


def seed_of(names: Sequence[str], seconds: float, number: int) -> int:
    """Return the first seed, from a drawn one on, with which every family strikes early."""
    for seed in count(draw_below(1 << 24, number, "seed")):
        faults = generator.plan(names, seed, seconds, Scope.of("kraft", NODES, BROKERS))
        soon = {fault.kind for fault in faults if fault.at <= SOON_S * 1e9}
        if soon == set(names):
            return seed
    raise AssertionError("there is no end of seeds")


def carry_out(number: int, plain: bool, families_first: int) -> dict[str, Any]:
    """Run one point; return its plan and what was left. Needs a machine of its own."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(TEMPORARY)], check=True)
    RUNTIME.mkdir()
    os.environ["XDG_RUNTIME_DIR"] = str(RUNTIME)
    point = plan(number, plain) | {"families_first": families_first}
    if not point["spark"]:
        os.environ["JAVA_HOME"] = "/nonexistent"
    where, hosts = "netns", []
    if point["way"] not in ("alone", PLAIN):
        up = kraftwreck("cluster", "up", "--nodes", "5", "--json")
        inventory = Path(json.loads(up.stdout)["inventory"])
        where, hosts = f"hosts:{inventory}", load_inventory(inventory)
    else:
        # The directory of all clusters and its lock stay.
        (RUNTIME / "kraftwreck").mkdir(mode=0o700)
        (RUNTIME / "kraftwreck/.lock").touch()
    if plain:
        STORE.mkdir()
        for path in (STORE, RUNTIME, *RUNTIME.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        os.environ |= {"LOGNAME": "nobody", "HOME": str(STORE)}
    return point | _measured(point, where, hosts)


def _measured(point: dict[str, Any], where: str, hosts: list[Host]) -> dict[str, Any]:
    remotes = {host.name: Remote(host) for host in hosts}
    clock = time.time() - time.monotonic()
    clusters = _clusters()
    go_on = point["way"] == "heal"
    hosts_before = {name: host_state(remote) for name, remote in remotes.items()}
    before = machine(clusters, nodes_go_on=go_on)
    killed, said = _kill(point, where, clusters)
    result: dict[str, Any] = {"killed": killed, "faults_seen": _seen(), "said": said}
    began = time.monotonic()
    left: list[str] = []
    if point["way"] == "heal":
        healed = kraftwreck("cluster", "heal", "--json")
        if healed.returncode:
            left.append(f"heal: {healed.stderr.strip()}")
    elif point["way"] == "next":
        more = kraftwreck("run", "-n", "none", "-t", "2", "-c", where, "--nodes", "3", "--brokers",
                          "2", "--store", str(STORE), "--seed", "1")  # fmt: skip
        if more.returncode:
            left.append(f"next run: {more.stderr.strip()}")
    left += settle(lambda: different(before, machine(clusters, nodes_go_on=go_on)))
    for name, remote in remotes.items():
        ours = hosts_before[name]
        left += [f"{name}: {line}" for line in settle(_looker(ours, remote))]
        remote.close()
    if point["way"] == "heal":
        again = json.loads(kraftwreck("cluster", "heal", "--json").stdout or "{}")
        for told in again.values():
            left += [f"{name}: healed twice: {what}" for name, what in told.items() if _did(what)]
    if abs(time.time() - time.monotonic() - clock) > TOLERANCE_S:
        left.append("clock: it has been set")
    return {**result, "clean_after_s": round(time.monotonic() - began, 2), "left": left}


def _looker(before: State, remote: Remote) -> Callable[[], list[str]]:
    return lambda: [
        line
        for line in different(before, host_state(remote))
        # A node's limit of open files may equal the machine's; that nodes exist now is no
        # difference.
        if not (line.startswith("node +") and _is_default(line, before))
    ]


def _is_default(line: str, before: State) -> bool:
    """Whether a node's limit of open files is the machine's own, not a lowered one."""
    soft = Path("/proc/self/limits").read_text()
    (ours,) = (each for each in soft.splitlines() if "open files" in each)
    return line.removeprefix("node + ").split() == ours.split()


def _did(told: dict[str, Any]) -> bool:
    return bool(told.get("packets")) or bool(set(told) - {"packets", "dropped", "ruleset"})


def _clusters() -> set[str]:
    return {path.name for path in (RUNTIME / "kraftwreck").glob("*") if path.is_dir()}


def _kill(point: dict[str, Any], where: str, clusters: set[str]) -> tuple[str, str]:
    """Start the run, kill it at its moment; return how it ended, and its last line."""
    command = [
        *(sys.executable, "-m", "kraftwreck", "run", "-n", point["faults"]),
        *("-t", str(point["seconds"]), "--seed", str(point["seed"]), "-c", where),
        *("--nodes", "3", "--brokers", "2", "--quorum", "dynamic", "--store", str(STORE)),
    ]
    with (TEMPORARY / "said").open("w+") as said:
        plain = point["way"] == PLAIN
        run = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=said,
            stderr=said,
            user=NOBODY if plain else None,
            group=NOBODY if plain else None,
            extra_groups=[] if plain else None,
        )
        kill_at = time.monotonic() + point["moment_ms"] / 1000
        waits = point["since"] == "ready"
        least = point["families_first"]
        while run.poll() is None and (waits or time.monotonic() < kill_at or len(_seen()) < least):
            clusters |= _clusters()
            if waits and " is ready after " in (TEMPORARY / "said").read_text():
                waits, kill_at = False, time.monotonic() + point["moment_ms"] / 1000
            left_s = kill_at - time.monotonic()
            time.sleep(left_s if 0 < left_s < 0.05 and not waits else 0.05)
        run.kill()
        run.wait()
        clusters |= _clusters()
        said.seek(0)
        lines = said.read().splitlines() or [""]
    (TEMPORARY / "said").unlink()
    how = "killed" if run.returncode == -signal.SIGKILL else f"ended with {run.returncode}"
    # The reason why a run ended by itself comes before the line with its folder.
    return how, lines[-1] if how == "killed" else " / ".join(lines[-4:])


def _seen() -> list[str]:
    """Return the kinds of faults that had begun, from the records of the run."""
    kinds = set()
    for file in STORE.rglob("faults.jsonl"):
        for line in file.read_bytes().split(b"\n")[:-1]:
            kinds.add(json.loads(line)["kind"])
    return sorted(kinds)


# --- all points -----------------------------------------------------------------------------


def run_point(number: int, plain: bool, families_first: int) -> dict[str, Any]:
    """Run one point on a machine of its own; a point that fails counts as something left."""
    own = ["unshare", "--net", "--mount", "--pid", "--ipc", "--fork", "--mount-proc"]
    command = [*own, "--kill-child", sys.executable, __file__, "--one", str(number)]
    command += ["--families-first", str(families_first), *(["--plain"] if plain else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        result = {**plan(number, plain), "killed": "failed", "faults_seen": [], "left": [why]}
    return result


def table(results: list[dict[str, Any]]) -> str:
    """Return the results as a Markdown table, a row per way of recovery."""
    lines = ["| way of recovery | points | killed | of them during faults | fault families in "
             "force until then | left anything |", "|---|---|---|---|---|---|"]  # fmt: skip
    for way in (*WAYS, PLAIN):
        rows = [row for row in results if row["way"] == way]
        if not rows:
            continue
        killed = [row for row in rows if row["killed"] == "killed"]
        kinds = {kind for row in killed for kind in row["faults_seen"]}
        struck = sum(bool(row["faults_seen"]) for row in killed)
        dirty = sum(bool(row["left"]) for row in rows)
        lines.append(f"| {way} | {len(rows)} | {len(killed)} | {struck} | {len(kinds)} | {dirty} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--results", type=Path, default=ROOT / "build/hygiene.jsonl")
    parser.add_argument("--plain", action="store_true", help="by an unprivileged user")
    parser.add_argument(
        "--families-first", type=int, default=0, metavar="N",
        help="kill no run before N families of faults have struck",
    )  # fmt: skip
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if ROOT.is_relative_to(TEMPORARY):
        print(f"hygiene: {ROOT} is in {TEMPORARY}, which points have empty", file=sys.stderr)
        return 254
    if options.one is not None:
        print(json.dumps(carry_out(options.one, options.plain, options.families_first)))
        return 0
    known: dict[int, dict[str, Any]] = {}
    if options.results.exists():
        rows = [json.loads(line) for line in options.results.read_text().splitlines()]
        mine = [row for row in rows if (row["way"] == PLAIN) == options.plain]
        known = {row["point"]: row for row in mine if row["killed"] != "failed"}
    options.results.parent.mkdir(parents=True, exist_ok=True)
    numbers = range(options.first, options.first + options.points)
    with options.results.open("a") as results:
        for number in numbers:
            if number in known:
                continue
            row = known[number] = run_point(number, options.plain, options.families_first)
            results.write(json.dumps(row) + "\n")
            results.flush()
            what = "; ".join(row["left"])[:400] or "nothing left"
            when = f"{row['since']} + {row['moment_ms'] / 1000:.3f} s"
            kinds = f"{len(row['faults_seen'])} families"
            print(f"{number:4} {row['way']:5} {when:18} {row['killed']:12} {kinds}  {what}",
                  file=sys.stderr)  # fmt: skip
    rows = [known[number] for number in numbers]
    print(table(rows))
    return 1 if any(row["left"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
