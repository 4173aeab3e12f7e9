"""A batch counts as a whole or not at all, wherever the process that commits it is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from kraftwreck.pipeline.java import PipelineError
from kraftwreck.pipeline.manifest import (
    STAGING,
    Manifest,
    RunEntry,
    commit,
    load,
    locate,
    locked,
    settle,
)

TABLES = ("silver/trace", "gold/runs", "gold/keys")


def batch(analysis: Path, generation: int) -> Manifest:
    """Stage a batch that keeps half of the last one's files; return the manifest to commit."""
    old = load(analysis)
    manifest = Manifest(generation=generation, runs=dict(old.runs))
    manifest.runs[f"t/{generation}"] = RunEntry(fingerprint="f", batch=str(generation))
    for table in TABLES:
        name = f"{table}/{generation:06d}/rows.parquet"
        path = analysis / STAGING / name
        path.parent.mkdir(parents=True)
        path.write_text(f"{table} of batch {generation}")
        kept = [] if table == "gold/keys" else old.tables.get(table, [])
        manifest.tables[table] = [*kept, name]
    return manifest


def state(analysis: Path) -> dict[str, str]:
    """Return the files and contents that a reader of the manifest sees."""
    return {file: locate(analysis, file).read_text() for file in load(analysis).files()}


def on_disk(analysis: Path) -> dict[str, str]:
    """Return the files and contents that a reader by file name patterns sees."""
    return {
        path.relative_to(analysis).as_posix(): path.read_text()
        for layer in ("silver", "gold")
        for path in analysis.glob(f"{layer}/*/*/*.parquet")
    }


def commit_and_be_killed(analysis: Path, manifest: Manifest, step: int) -> bool:
    """Commit in another process that kills itself at ``step``; whether it got that far."""
    child = os.fork()
    if child == 0:
        passed = 0

        def watch(_: str) -> None:
            nonlocal passed
            if passed == step:
                os.kill(os.getpid(), signal.SIGKILL)
            passed += 1

        commit(analysis, manifest, watch)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def test_a_killed_commit_is_whole_or_nothing(tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    commit(clean, batch(clean, 1))
    before = state(clean)
    commit(clean, batch(clean, 2))
    after = state(clean)
    seen = set()
    for step in range(50):
        analysis = tmp_path / f"killed-{step}"
        commit(analysis, batch(analysis, 1))
        killed = commit_and_be_killed(analysis, batch(analysis, 2), step)
        told = state(analysis)
        assert told in (before, after), "a reader of the manifest sees one whole state"
        seen.add(load(analysis).generation)
        settle(analysis, load(analysis))
        assert state(analysis) == on_disk(analysis) == told
        assert not (analysis / STAGING).exists()
        if load(analysis).generation == 1:
            commit(analysis, batch(analysis, 2))
        assert state(analysis) == on_disk(analysis) == after, "done again it is as if never killed"
        if not killed:
            break
    assert seen == {1, 2}
    assert step >= 5, "killed before and after the rename, and between the files' moves"


def test_settling_is_killed_too(tmp_path: Path) -> None:
    for step in range(1, 4):
        analysis = tmp_path / str(step)
        commit(analysis, batch(analysis, 1))
        assert commit_and_be_killed(analysis, batch(analysis, 2), step)
        assert load(analysis).generation == 2
        told = state(analysis)

        def watch(_: str) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            settle(analysis, load(analysis), watch)
        assert state(analysis) == told
        settle(analysis, load(analysis))
        assert on_disk(analysis) == told


def test_staged_files_of_a_killed_analysis_are_deleted(tmp_path: Path) -> None:
    commit(tmp_path, batch(tmp_path, 1))
    before = state(tmp_path)
    batch(tmp_path, 2)
    settle(tmp_path, load(tmp_path))
    assert not (tmp_path / STAGING).exists()
    assert state(tmp_path) == on_disk(tmp_path) == before


def test_two_analyses_at_once_are_refused(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(PipelineError, match="another analysis is running"):
        locked(tmp_path).__enter__()
    with locked(tmp_path):
        pass


def test_an_unreadable_manifest_gives_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"schema": "one"}')
    with pytest.raises(PipelineError, match=r"manifest.json: .* to analyze everything again"):
        load(tmp_path)
