"""Commands that administrate a cluster: ``python3 -m kraftwreck.nodes.admin COMMAND``.

All but ``create-cluster`` work through any broker, also one of Apache Kafka 4. Their only state is
the cluster's: repeat a command that was killed, and it does the rest.

Exit status: 0 done, 1 not done in time or cluster not reached (repeat the command), 254 wrong
arguments, or refused by the cluster.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from kraftwreck.nodes.admin.balance import Balancer
from kraftwreck.nodes.admin.brokers import Removal, add_brokers
from kraftwreck.nodes.admin.client import Client
from kraftwreck.nodes.admin.cluster import Cluster
from kraftwreck.nodes.admin.creation import Creation
from kraftwreck.nodes.admin.failure import NOT_DONE, REFUSED, AdminError
from kraftwreck.nodes.admin.features import describe_features, upgrade_features
from kraftwreck.nodes.admin.topics import CONTROLLER, ROTATED, create_topic
from kraftwreck.nodes.protocol.codec import ProtocolError
from kraftwreck.nodes.server.addresses import ConfigError, parse_servers
from kraftwreck.nodes.server.console import say

PROGRAM: Final = "kraftwreck-admin"
PATIENCE_S: Final = 30.0
TIMEOUT_S: Final = 3600.0
BATCH: Final = 100
_LEVEL: Final = re.compile(r"\d{1,4}", re.ASCII)
_NUMBERS: Final = re.compile(r"\d{1,9}(,\d{1,9})*", re.ASCII)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        say(f"{self.prog}: {message}")
        raise SystemExit(REFUSED)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    arguments = _parser().parse_args(argv)
    try:
        result = _run(arguments)
    except AdminError as error:
        say(f"{PROGRAM}: {error}")
        return error.status
    except (ConfigError, ProtocolError) as error:
        say(f"{PROGRAM}: {error}")
        return REFUSED
    except KeyboardInterrupt:
        say(f"{PROGRAM}: interrupted; repeat the command to do the rest")
        return NOT_DONE
    if arguments.json:
        print(json.dumps(result))
    else:
        for line in _lines(result):
            print(line)
    return 0


def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.command == "create-cluster":
        return _create_cluster(arguments)
    servers = parse_servers("--bootstrap-server", arguments.bootstrap_server)
    client = Client(servers, arguments.patience)
    try:
        return _administrate(arguments, Cluster(client))
    finally:
        client.close()


def _create_cluster(arguments: argparse.Namespace) -> dict[str, Any]:
    own = None if arguments.only is None else _ids("--only", arguments.only)
    creation = Creation(arguments.configs, own, _progress)
    formatted = creation.format(arguments.release_version)
    started = creation.start(arguments.patience) if arguments.start else []
    if arguments.wait:
        creation.wait(arguments.patience)
    return dict(creation.result(formatted, started))


def _administrate(arguments: argparse.Namespace, cluster: Cluster) -> dict[str, Any]:
    if arguments.command == "create-topic":
        return create_topic(
            cluster,
            arguments.topic,
            arguments.partitions,
            arguments.replicas,
            _configs(arguments.config),
            arguments.placement,
            _progress,
        )
    if arguments.command == "describe-features":
        return describe_features(cluster)
    if arguments.command == "upgrade-features":
        return upgrade_features(cluster, _levels(arguments.features), arguments.dry_run)
    brokers = _ids("broker", arguments.brokers)
    balancer = Balancer(cluster, _progress, arguments.timeout, arguments.batch)
    if arguments.command == "add-brokers":
        return add_brokers(cluster, balancer, brokers, _progress, arguments.dry_run)
    removal = Removal(cluster, balancer, brokers, arguments.data_dir, _progress)
    return removal.run(arguments.timeout, arguments.dry_run)


def _progress(text: str) -> None:
    say(f"{PROGRAM}: {text}")


def _ids(name: str, text: str) -> list[int]:
    if not _NUMBERS.fullmatch(text):
        raise AdminError(f"{name} {text!r} is not a list of node ids; write 4 or 4,5")
    return [int(part) for part in text.split(",")]


def _configs(pairs: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals or key in found:
            raise AdminError(f"--config {pair!r} is not NAME=VALUE, each name once")
        found[key] = value
    return found


def _levels(pairs: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for pair in pairs:
        name, equals, level = pair.partition("=")
        if not name or not equals or name in found or not _LEVEL.fullmatch(level):
            raise AdminError(f"feature {pair!r} is not NAME=LEVEL, each name once")
        found[name] = int(level)
    return found


def _lines(result: dict[str, Any]) -> list[str]:
    """Return a result as lines of text: lists of moves as one line each."""
    lines = []
    for key, value in result.items():
        label = key.replace("_", " ")
        if key == "moves":
            lines += [f"{m['topic']}-{m['partition']}: {m['from']} to {m['to']}" for m in value]
        elif key == "commands":
            lines += [f"node {node} is run by: {' '.join(argv)}" for node, argv in value.items()]
        elif isinstance(value, dict):
            lines.append(f"{label}: " + ", ".join(f"{k}: {v}" for k, v in value.items()))
        elif isinstance(value, list):
            lines.append(f"{label}: {', '.join(map(str, value)) or 'none'}")
        else:
            lines.append(f"{label}: {value}")
    return lines


def _positive(text: str) -> int:
    number = int(text)
    if not 0 < number < 1 << 31:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=PROGRAM, description="Administrate a cluster over Kafka's protocol.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_create_cluster(commands)
    topic = _add(commands, "create-topic", "create a topic")
    topic.add_argument("topic", metavar="NAME")
    topic.add_argument("--partitions", type=_positive, metavar="N", help="default: the cluster's")
    topic.add_argument("--replicas", type=_positive, metavar="N", help="default: the cluster's")
    topic.add_argument(
        "--config", action="append", default=[], metavar="NAME=VALUE", help="may be repeated"
    )
    topic.add_argument(
        "--placement",
        choices=(CONTROLLER, ROTATED),
        default=CONTROLLER,
        help="who places replicas: the controller, or the round-robin of Kafka's first design",
    )
    _add(commands, "describe-features", "show the levels of features")
    levels = _add(commands, "upgrade-features", "raise levels of features, all or none")
    levels.add_argument("features", nargs="+", metavar="NAME=LEVEL")
    levels.add_argument("--dry-run", action="store_true", help="ask if it is possible")
    add = _add(commands, "add-brokers", "balance the cluster on brokers that were started")
    _add_balancing(add)
    remove = _add(commands, "remove-brokers", "drain brokers, unregister them, delete their data")
    _add_balancing(remove)
    remove.add_argument(
        "--data-dir",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="log.dirs of such a broker on this host: its process is stopped and DIR deleted; "
        "may be repeated",
    )
    return parser


def _add(commands: Any, name: str, about: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
    parser.add_argument(
        "--bootstrap-server", required=True, metavar="HOST:PORT,...", help="listeners of brokers"
    )
    _add_output(parser)
    return parser


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as JSON on stdout")
    parser.add_argument(
        "--patience",
        type=_seconds,
        default=PATIENCE_S,
        metavar="SECONDS",
        help="how long to try to reach brokers (%(default)g)",
    )


def _add_balancing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("brokers", metavar="ID,...")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, and change nothing")
    parser.add_argument(
        "--batch",
        type=_positive,
        default=BATCH,
        metavar="N",
        help="partitions that move at the same time (%(default)s)",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=TIMEOUT_S,
        metavar="SECONDS",
        help="how long to wait for the next partition, or for a broker's end (%(default)g)",
    )


def _add_create_cluster(commands: Any) -> None:
    about = "format, and start, the nodes of a new cluster"
    parser = commands.add_parser("create-cluster", help=about, description=about)
    parser.add_argument(
        "configs", type=Path, nargs="+", metavar="FILE", help="the .properties files of all nodes"
    )
    parser.add_argument("--only", metavar="ID,...", help="the nodes of this host (all)")
    parser.add_argument("--start", action="store_true", help="start these nodes")
    parser.add_argument("--wait", action="store_true", help="wait until all brokers are members")
    parser.add_argument(
        "--release-version", metavar="VERSION", help="metadata.version to begin with"
    )
    _add_output(parser)


if __name__ == "__main__":
    sys.exit(main())
