"""The public face: all that a package outside of this tree imports.

Names of other modules may move without notice; these stay, or change with a line in the changelog.
``docs/api.md`` lists them by use.
"""

from __future__ import annotations

from kraftwreck.checkers.calls import Call as CheckedCall
from kraftwreck.checkers.floor import Floor
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.checkers.registry import Checker
from kraftwreck.harness.capabilities import (
    CLOCKS,
    COMMANDS,
    DISKS,
    HOSTS,
    LEADERS,
    LIMITS,
    LOAD,
    MEMBERSHIP,
    MESSAGES,
    PACKETS,
    POWER,
    PROCESSES,
    TORN_WRITES,
    UPGRADES,
    Capability,
    ClockSetting,
    Environment,
    MemberChange,
)
from kraftwreck.harness.client import Answer, Call, Client, Completion, Connection, Invocation
from kraftwreck.harness.clusters.cluster import Host
from kraftwreck.harness.clusters.gateway import dial
from kraftwreck.harness.deploy.artefacts import (
    Artefact,
    ArtefactError,
    DebianPackages,
    Files,
    GoModule,
    Jars,
    Wheels,
    library_path,
)
from kraftwreck.harness.deploy.clients import ClientError, NodeClient
from kraftwreck.harness.deploy.declaration import (
    CommandSucceeds,
    HttpAnswer,
    OutputLine,
    Place,
    PortOpen,
    Process,
    Ready,
    Running,
)
from kraftwreck.harness.deploy.plain import PlainSystem
from kraftwreck.harness.generator import Generator, Planned
from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.simulated.core import CorePlace, CoreSystem, Watch
from kraftwreck.harness.system import Deployed, System
from kraftwreck.harness.workload import ClientSetting, Load, Workload
from kraftwreck.histories.disturbance import Disturbance
from kraftwreck.histories.fault import Fault, FaultEvent
from kraftwreck.histories.members import Member
from kraftwreck.histories.operation import Op
from kraftwreck.histories.reading import read_history
from kraftwreck.histories.trace import TraceEvent
from kraftwreck.histories.verdict import Anomaly, CheckerResult, Suspicion, Verdict
from kraftwreck.nemesis.families.clocks import ClockShape
from kraftwreck.nemesis.families.network import NetworkShape
from kraftwreck.nemesis.families.partitions import Partition, PartitionShape
from kraftwreck.nemesis.families.processes import Kill, Pause, Terminate
from kraftwreck.nemesis.families.squeezes import SqueezeShape
from kraftwreck.nemesis.family import Active, Effect, Family
from kraftwreck.nemesis.registry import SystemFaults
from kraftwreck.nemesis.shapes import Shape
from kraftwreck.nodes.consensus.effects import FatalError
from kraftwreck.nodes.draw import draw, draw_below, draw_unit
from kraftwreck.simulation.binding import Binding
from kraftwreck.simulation.failures import Failures
from kraftwreck.simulation.host import Core
from kraftwreck.simulation.host import Host as SimulatedHost
from kraftwreck.simulation.knobs import WorldKnobs, draw_world
from kraftwreck.simulation.plain import (
    COPIED,
    Codec,
    Note,
    PlainBinding,
    Post,
    Put,
    Received,
    Reply,
    RequestReceived,
    ResponseReceived,
    Send,
    Shutdown,
    Stopped,
    Tick,
)
from kraftwreck.simulation.world import World
from kraftwreck.workloads.generators import (
    Cycle,
    Delay,
    EachThread,
    Filter,
    Limit,
    Map,
    OnThreads,
    Plans,
    Repeat,
    Sleep,
    Stagger,
    Synchronize,
    TimeLimit,
    UntilInfo,
    UntilOk,
    any_of,
    mix,
    once,
    phases,
    reserve,
    then,
)
from kraftwreck.workloads.independent import ConcurrentKeys, SequentialKeys
from kraftwreck.workloads.planned import PlannedWorkload
from kraftwreck.workloads.verbs import VERBS, carry_out, keys_of

__all__ = [  # noqa: RUF022 - by code point
    "Active",
    "Anomaly",
    "Answer",
    "Artefact",
    "ArtefactError",
    "Binding",
    "CLOCKS",
    "COMMANDS",
    "COPIED",
    "Call",
    "Capability",
    "CheckedCall",
    "Checker",
    "CheckerResult",
    "Client",
    "ClientError",
    "ClientSetting",
    "ClockSetting",
    "ClockShape",
    "Codec",
    "CommandSucceeds",
    "Completion",
    "ConcurrentKeys",
    "Connection",
    "Core",
    "CorePlace",
    "CoreSystem",
    "Cycle",
    "DISKS",
    "DebianPackages",
    "Delay",
    "Deployed",
    "Disturbance",
    "EachThread",
    "Effect",
    "Environment",
    "Failures",
    "Family",
    "FatalError",
    "Fault",
    "FaultEvent",
    "Files",
    "Filter",
    "Floor",
    "Generator",
    "GoModule",
    "HOSTS",
    "Host",
    "HttpAnswer",
    "Invocation",
    "Jars",
    "Kill",
    "LEADERS",
    "LIMITS",
    "LOAD",
    "Limit",
    "Load",
    "MEMBERSHIP",
    "MESSAGES",
    "Map",
    "Member",
    "MemberChange",
    "NetworkShape",
    "NodeClient",
    "Note",
    "OnThreads",
    "Op",
    "OptionError",
    "OutputLine",
    "PACKETS",
    "POWER",
    "PROCESSES",
    "Partition",
    "PartitionShape",
    "Pause",
    "Place",
    "PlainBinding",
    "PlainSystem",
    "Planned",
    "PlannedWorkload",
    "Plans",
    "PortOpen",
    "Post",
    "Process",
    "Put",
    "Ready",
    "Received",
    "Repeat",
    "Reply",
    "RequestReceived",
    "ResponseReceived",
    "RunData",
    "RunOptions",
    "Running",
    "Send",
    "SequentialKeys",
    "Shape",
    "Shutdown",
    "SimulatedHost",
    "Sleep",
    "SqueezeShape",
    "Stagger",
    "Stopped",
    "Suspicion",
    "Synchronize",
    "System",
    "SystemFaults",
    "TORN_WRITES",
    "Terminate",
    "Tick",
    "TimeLimit",
    "TraceEvent",
    "UPGRADES",
    "UntilInfo",
    "UntilOk",
    "VERBS",
    "Verdict",
    "Watch",
    "Wheels",
    "Workload",
    "World",
    "WorldKnobs",
    "any_of",
    "carry_out",
    "dial",
    "draw",
    "draw_below",
    "draw_unit",
    "draw_world",
    "keys_of",
    "library_path",
    "mix",
    "once",
    "phases",
    "read_history",
    "reserve",
    "then",
]
