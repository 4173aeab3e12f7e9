"""Run folders of simulated runs of KRaft: with messages and disk images, as of real runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from kraftwreck.harness.options import RunOptions
from kraftwreck.harness.simulated import store
from kraftwreck.harness.simulated.driver import InjectorFactory
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.harness.workload import Workload
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.store import RunFolder
from kraftwreck.histories.verdict import Verdict
from kraftwreck.nodes.log.layout import (
    EPOCH_CHECKPOINT,
    META_PROPERTIES,
    METADATA_DIRECTORY,
    QUORUM_STATE,
    segment_name,
)
from kraftwreck.nodes.log.meta import Meta
from kraftwreck.nodes.log.uuids import from_text
from kraftwreck.systems.kraft.simulated.cluster import CLUSTER_ID
from kraftwreck.systems.kraft.simulated.knobs import Knobs
from kraftwreck.systems.kraft.simulated.messages import write_messages
from kraftwreck.systems.kraft.simulated.run import simulate


def run(
    options: RunOptions,
    *,
    workload: Workload,
    schedule: Sequence[Fault],
    injector: InjectorFactory,
    knobs: Knobs | None = None,
) -> Path:
    """Simulate one test and write its run folder; return the folder.

    Raises :class:`~histories.store.StoreError` when the store cannot be written.
    """
    result = simulate(options, workload, schedule, injector, knobs=knobs)
    return save(options, workload, result)


def save(
    options: RunOptions,
    workload: Workload,
    result: SimResult,
    *,
    verdict: Verdict | None = None,
    repeat: str | None = None,
) -> Path:
    """Write ``result`` as a run folder: see :func:`harness.simulated.store.save`."""
    return store.save(options, workload, result, verdict=verdict, repeat=repeat, more=_more)


def load(folder: Path) -> tuple[RunOptions, list[Fault], Knobs, str]:
    """Return options, schedule, knobs and digest of the simulated run in ``folder``.

    Raises :class:`~harness.options.OptionError`, one line.
    """
    return store.load(folder, Knobs)


def _more(folder: RunFolder, result: SimResult) -> None:
    names = [str(name) for name in result.test["nodes"]]
    write_messages(result.capture.messages, folder.path / "messages.jsonl")
    for image in result.images:
        log = folder.node(image.node) / "images" / image.label / METADATA_DIRECTORY
        log.mkdir(parents=True, exist_ok=True)
        (log / segment_name(image.start_offset)).write_bytes(image.log)
        for name, content in image.snapshots:
            (log / name).write_bytes(content)
        if image.epochs is not None:
            lines = [f"{epoch} {start}" for epoch, start in image.epochs]
            text = "\n".join(["0", str(len(lines)), *lines, ""])
            (log / EPOCH_CHECKPOINT).write_text(text, encoding="ascii")
        if image.directory is not None:
            meta = Meta(CLUSTER_ID, names.index(image.node) + 1, from_text(image.directory))
            (log.parent / META_PROPERTIES).write_bytes(meta.encode())
        if image.quorum_state is not None:
            (log / QUORUM_STATE).write_bytes(msgspec.json.encode(image.quorum_state))
