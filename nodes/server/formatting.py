"""The ``format`` command: from its options and the configuration to a formatted directory."""

from __future__ import annotations

import argparse
from typing import Final

from kraftwreck.nodes.log.format import (
    InitialVoter,
    Meta,
    Mode,
    format_directory,
    parse_initial_controllers,
)
from kraftwreck.nodes.server.addresses import CONTROLLER, ConfigError
from kraftwreck.nodes.server.properties import SERVERS, VOTERS, ServerConfig

_RELEASES: Final = {
    "3.3": (3,),
    "3.4": (0,),
    "3.5": (0, 1, 2),
    "3.6": (0, 1, 2),
    "3.7": (0, 1, 2, 3, 4),
    "3.8": (0,),
    "3.9": (0,),
    "4.0": (0, 1, 2, 3),
    "4.1": (0, 1),
}
"""Kafka's names of the levels of metadata.version from 7 on: release and inter-release version."""
_NAMES: Final = [f"{name}-IV{iv}" for name, versions in _RELEASES.items() for iv in versions]
_LEVELS: Final = {name: level for level, name in enumerate(_NAMES, 7)}
# A release by itself is the last level it brought.
_LEVELS.update({name.partition("-")[0]: level for name, level in list(_LEVELS.items())})


def add_format_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``format``, with the meaning they have in Kafka's kafka-storage format."""
    group = parser.add_argument_group("format")
    begin = group.add_mutually_exclusive_group()
    begin.add_argument(
        "--standalone", action="store_true", help="the only voter of a new dynamic quorum"
    )
    begin.add_argument(
        "--initial-controllers",
        metavar="ID@HOST:PORT:DIRECTORY,...",
        help="the voters of a new dynamic quorum, the same on each of them",
    )
    begin.add_argument(
        "--no-initial-controllers",
        action="store_true",
        help="join an existing or future dynamic quorum",
    )
    group.add_argument(
        "--release-version",
        metavar="VERSION",
        help="metadata.version to begin with, as 4.0, 4.0-IV3 or a level",
    )


def format_node(config: ServerConfig, options: argparse.Namespace) -> Meta:
    """Format the data directory. Raises ConfigError, FormatError and OSError."""
    mode = _mode(config, options)
    level = None
    if options.release_version is not None:
        level = release_level(options.release_version)
    voters: tuple[InitialVoter, ...] = ()
    if mode is Mode.INITIAL_CONTROLLERS:
        voters = parse_initial_controllers(options.initial_controllers)
        if config.node_id not in {voter.node_id for voter in voters}:
            raise ConfigError(f"node {config.node_id} is not among --initial-controllers")
    return format_directory(
        config.log_dir,
        config.cluster_id,
        config.node_id,
        mode=mode,
        listener=config.advertised.get(CONTROLLER) if mode is Mode.STANDALONE else None,
        voters=voters,
        metadata_version=level,
    )


def _mode(config: ServerConfig, options: argparse.Namespace) -> Mode:
    """Return how the node's quorum finds its first voters; it must match the configuration."""
    given = {
        Mode.STANDALONE: options.standalone,
        Mode.INITIAL_CONTROLLERS: options.initial_controllers is not None,
        Mode.NO_INITIAL_CONTROLLERS: options.no_initial_controllers,
    }
    chosen = next((mode for mode, wanted in given.items() if wanted), None)
    if not config.controller:
        if chosen not in (None, Mode.NO_INITIAL_CONTROLLERS):
            raise ConfigError(f"--{chosen.value} is for controllers, this is a broker")
        return Mode.NO_INITIAL_CONTROLLERS
    if config.voters:
        if chosen is not None:
            raise ConfigError(f"--{chosen.value} is for quorums that {VOTERS} does not fix")
        return Mode.STATIC
    if chosen is None:
        options_are = ", ".join(f"--{mode.value}" for mode in given)
        raise ConfigError(f"with {SERVERS} one of {options_are} must be given")
    return chosen


def release_level(text: str) -> int:
    """Return the level of metadata.version that a release or a level names.

    Raises ConfigError if there is none.
    """
    level = _LEVELS.get(text)
    if level is None and text.isascii() and text.isdecimal() and len(text) < 4:
        level = int(text)  # the writer checks whether there is such a level
    if level is None:
        raise ConfigError(
            f"--release-version {text} is not known: 3.3-IV3 to 4.1-IV1, a release or a level"
        )
    return level
