"""The options that KRaft adds to a run and to a campaign, and the roles that they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from kraftwreck.harness.layout import Layout
from kraftwreck.harness.options import MOST_NODES, OptionError, RunOptions
from kraftwreck.harness.own_options import NO, YES, OwnOption, OwnOptions, values
from kraftwreck.nodes.metadata.config_keys import COMMIT_MODE, ISR, QUORUM
from kraftwreck.nodes.metadata.image_values import COMMIT_MODE_VERSION
from kraftwreck.systems.kraft.properties import MIN_INSYNC, UNCLEAN
from kraftwreck.systems.kraft.requests import broker_of

CONTROLLER: Final = "controller"
BROKER: Final = "broker"
CONTROLLER_AND_BROKER: Final = "controller,broker"
STATIC: Final = "static"
DYNAMIC: Final = "dynamic"
MIXED: Final = "mixed"
BY_SEED: Final = "seed"
PRODUCE: Final = "produce"
"""The workload of records, which needs brokers that store them."""
OWN_CLIENT: Final = "own"
LIBRDKAFKA: Final = "librdkafka"
JAVA: Final = "java"
MOST_BROKERS: Final = 3
"""The most brokers that the seed of a simulated run chooses."""

Quorum = Literal["static", "dynamic", "mixed"]
"""The kind of quorum to draw; ``mixed`` is either."""

_RUN = (
    OwnOption(
        name="brokers",
        about="Number of brokers in addition to the controllers.",
        default="0",
        most=MOST_NODES,
    ),
    OwnOption(
        name="combined",
        about="Let every controller be a broker, too.",
        default=NO,
        words=(NO, YES),
        flag=True,
    ),
    OwnOption(
        name="quorum",
        about="Whether voters can be changed; -n membership needs dynamic.",
        default=DYNAMIC,
        words=(STATIC, DYNAMIC),
    ),
    OwnOption(
        name="client",
        about="Client of -w produce on hosts.",
        default=OWN_CLIENT,
        words=(OWN_CLIENT, LIBRDKAFKA, JAVA),
    ),
    OwnOption(
        name="properties",
        about="Properties of its producers, as NAME=VALUE lines; needs another client than own.",
        default="",
        file=True,
    ),
    OwnOption(
        name="min-insync",
        about="min.insync.replicas of its topics on hosts; seed: 2, or 1 in one of four runs.",
        default=BY_SEED,
        words=(BY_SEED, "1", "2", "3"),
    ),
    OwnOption(
        name="commit-mode",
        about="commit.mode of its topics on hosts: the ISR commits, or a majority of replicas.",
        default=ISR,
        words=(ISR, QUORUM),
    ),
    OwnOption(
        name="unclean",
        about="Let a replica that lacks records lead its topics on hosts.",
        default=NO,
        words=(NO, YES),
        flag=True,
    ),
)
_CAMPAIGN = (
    OwnOption(
        name="quorum",
        about="Whether voters can be changed; mixed: by seed.",
        default=MIXED,
        words=get_args(Quorum),
    ),
    OwnOption(
        name="brokers",
        about="Brokers beside the controllers; seed: none to three, by seed.",
        default=BY_SEED,
        words=(BY_SEED,),
        most=MOST_NODES,
    ),
    OwnOption(
        name="records",
        about="Let brokers store records; seed: half of the runs with brokers, and -w produce.",
        default=BY_SEED,
        words=(NO, YES, BY_SEED),
    ),
    OwnOption(
        name="shells",
        about="Run every node in the shell of a real process.",
        default=NO,
        words=(NO, YES),
        flag=True,
    ),
)
OPTIONS: Final = OwnOptions(run=_RUN, campaign=_CAMPAIGN)


@dataclass(frozen=True, slots=True)
class KraftLayout(Layout):
    """Controllers, then brokers."""

    def gateways(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the brokers of the hosts ``names``; if all nodes are both, their brokers."""
        if CONTROLLER_AND_BROKER in self.roles:
            return tuple(map(broker_of, names))
        return Layout.gateways(self, names)

    def members(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the fields of ``test.json`` about the hosts, also controllers and brokers."""
        return {
            **Layout.members(self, names),
            "controllers": list(names[: self.electing]),
            "brokers": list(names[self.electing :]),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KraftOptions:
    """The options of one run.

    - ``brokers``: number of brokers, on the hosts after the controllers
    - ``combined``: every controller is a broker, too
    - ``dynamic``: voters can be changed (KIP-853)
    - ``client``: the client of records, and ``properties``: the file with those of its producers
    - ``topics``: configs that topics of records get beside those that the seed draws
    """

    brokers: int = 0
    combined: bool = False
    dynamic: bool = True
    client: str = OWN_CLIENT
    properties: Path | None = None
    topics: Mapping[str, str] = field(default_factory=dict)

    @property
    def needs_hosts(self) -> bool:
        """Whether it has an option of records that only hosts have."""
        return self.client != OWN_CLIENT or bool(self.topics)

    @classmethod
    def of(cls, options: RunOptions) -> KraftOptions:
        """Return those among the options of a run, with brokers if its workload needs them.

        Raises :class:`OptionError`, one line.
        """
        mine = cls.parsed(options.system_options)
        if mine.needs_hosts and options.workload != PRODUCE:
            raise OptionError(
                "--client, --properties, --min-insync, --commit-mode and --unclean are for -w"
                " produce only"
            )
        if options.workload != PRODUCE or mine.brokers or mine.combined:
            return mine
        return replace(mine, brokers=MOST_BROKERS)

    @classmethod
    def parsed(cls, given: Sequence[str]) -> KraftOptions:
        """Return those in ``given``, each ``NAME=VALUE``. Raises :class:`OptionError`, one line."""
        found = values(_RUN, given, "kraft")
        mine = cls(
            brokers=int(found["brokers"]),
            combined=found["combined"] == YES,
            dynamic=found["quorum"] == DYNAMIC,
            client=found["client"],
            properties=Path(found["properties"]) if found["properties"] else None,
            topics=_topics(found),
        )
        if mine.properties is not None and mine.client == OWN_CLIENT:
            raise OptionError(
                f"--properties needs another client: add --client {LIBRDKAFKA} or {JAVA}"
            )
        if COMMIT_MODE in mine.topics and mine.client != OWN_CLIENT:
            raise OptionError(
                f"--commit-mode {QUORUM} works with --client {OWN_CLIENT} only: no other client"
                f" raises the feature {COMMIT_MODE_VERSION} before it creates topics"
            )
        if mine.combined and mine.brokers:
            raise OptionError("--combined and --brokers cannot be combined")
        return mine

    def serving(self, controllers: int) -> int:
        """Return how many nodes of a run with ``controllers`` store records."""
        return controllers if self.combined else self.brokers

    def layout(self, controllers: int) -> KraftLayout:
        """Return the hosts of a run with this number of ``controllers``."""
        controller = CONTROLLER_AND_BROKER if self.combined else CONTROLLER
        return KraftLayout((controller,) * controllers + (BROKER,) * self.brokers, controllers)


def _topics(found: Mapping[str, str]) -> dict[str, str]:
    topics = {}
    if found["min-insync"] != BY_SEED:
        topics[MIN_INSYNC] = found["min-insync"]
    if found["commit-mode"] == QUORUM:
        topics[COMMIT_MODE] = QUORUM
    if found["unclean"] == YES:
        topics[UNCLEAN] = "true"
    return topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Choices of a campaign: the kind of ``quorum``, how many ``brokers``, and whether they store
    ``records`` (None: by seed).

    With ``shells`` nodes run in the shells of real processes.
    """

    quorum: Quorum = MIXED
    brokers: int | None = None
    records: bool | None = None
    shells: bool = False

    @classmethod
    def parsed(cls, given: Sequence[str]) -> Draws:
        """Return those in ``given``, each ``NAME=VALUE``. Raises :class:`OptionError`, one line."""
        found = values(_CAMPAIGN, given, "kraft")
        brokers = found["brokers"]
        if found["shells"] == YES and found["records"] == YES:
            raise OptionError("--shells works without records only: leave --records yes out")
        return cls(
            quorum=cast(Quorum, found["quorum"]),
            brokers=None if brokers == BY_SEED else int(brokers),
            records=None if found["records"] == BY_SEED else found["records"] == YES,
            shells=found["shells"] == YES,
        )
