"""One process, one node: ``python3 -m kraftwreck.nodes.server [run|format] --config FILE``.

``format`` prepares the data directory. The controllers of a dynamic quorum (those with
``controller.quorum.bootstrap.servers``) begin as Kafka's: ``--standalone`` as its only voter,
``--initial-controllers id@host:port:directory,...`` as one of these voters, or
``--no-initial-controllers`` to join later.

Exit status: 0 stopped on request, 1 the disk failed, 3 an illegal state was reached, 254 the
configuration cannot be used.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from kraftwreck.nodes.log.format import FormatError
from kraftwreck.nodes.server.addresses import ConfigError
from kraftwreck.nodes.server.console import say
from kraftwreck.nodes.server.exit_status import BAD_CONFIG, DISK_FAILED
from kraftwreck.nodes.server.formatting import add_format_options, format_node
from kraftwreck.nodes.server.properties import load_config


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        say(f"{self.prog}: {message}")
        raise SystemExit(BAD_CONFIG)


GC_THRESHOLDS: Final = (50_000, 20, 20)
"""Collections are rare: reference counts free nearly all garbage."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a node or format its data directory; return the exit status."""
    parser = _Parser(prog="kraftwreck-node", description="One KRaft controller, broker, or both.")
    parser.add_argument(
        "command", nargs="?", choices=("run", "format"), default="run", help="default: run"
    )
    parser.add_argument("--config", type=Path, required=True, help="a .properties file")
    add_format_options(parser)
    arguments = parser.parse_args(argv)
    # Files of a node are readable by its user only.
    os.umask(0o077)
    try:
        config = load_config(arguments.config)
        if arguments.command == "format":
            meta = format_node(config, arguments)
            say(f"{config.log_dir} belongs to node {meta.node_id} of cluster {meta.cluster_id}")
            return 0
        gc.disable()  # No garbage arises while modules load.
        # Formatting needs little of this, and loading it takes most of a start.
        from kraftwreck.nodes.server.serving import run

        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()
        return run(config)
    except (ConfigError, FormatError) as mistake:
        say(f"kraftwreck-node: {mistake}")
        return BAD_CONFIG
    except (OSError, ValueError) as error:
        say(f"kraftwreck-node: cannot use {config.log_dir}: {error}")
        return DISK_FAILED


if __name__ == "__main__":
    sys.exit(main())
