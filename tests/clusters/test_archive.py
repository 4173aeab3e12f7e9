"""The zip of the node code: the same bytes for the same sources, and it runs, compiled or not."""

from __future__ import annotations

import importlib.util
import io
import marshal
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kraftwreck.harness import compiled_archive
from kraftwreck.harness.archive import build_archive, digest, with_bytecode
from kraftwreck.harness.compiled_archive import FILE


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "nodes"
    (tree / "below").mkdir(parents=True)
    (tree / "__init__.py").touch()
    (tree / "below/__init__.py").write_text("WORD = 'from below'\n")
    (tree / "__main__.py").write_text(
        "import sys, kraftwreck.nodes.below as b; print(b.WORD, sys.argv[1:])\n"
    )
    return tree


def output_of(archive: bytes, tmp_path: Path, python: str = sys.executable) -> str:
    file = tmp_path / "x.pyz"
    file.write_bytes(archive)
    return subprocess.run(
        [python, "-I", file, "--config", "f"],
        capture_output=True, text=True, check=True, cwd="/",
    ).stdout  # fmt: skip


def with_other_sources(archive: bytes, magic: bytes) -> bytes:
    """Let the sources print another word than the compiled forms, which begin with ``magic``."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as before, zipfile.ZipFile(changed, "w") as after:
        for name in before.namelist():
            content = before.read(name)
            if name.endswith(".pyc") or name == FILE:
                content = magic + content[len(magic) :]
            after.writestr(name, content.replace(b"'from below'", b"'from source'"))
    return changed.getvalue()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with_bytecode.cache_clear()
    return tmp_path / "cache/kraftwreck/nodes"


def compiled_in(archive: zipfile.ZipFile) -> Any:
    """Return the compiled modules and methods of an archive."""
    file = archive.read(FILE)
    assert file.startswith(importlib.util.MAGIC_NUMBER)
    return marshal.loads(file[len(importlib.util.MAGIC_NUMBER) :])  # noqa: S302 - our own


def test_it_runs_on_a_bare_python(tree: Path, tmp_path: Path) -> None:
    output = output_of(build_archive(tree), tmp_path, "/usr/bin/python3")
    assert output == "from below ['--config', 'f']\n"


def test_times_caches_and_patch_leftovers_do_not_change_it(tree: Path, tmp_path: Path) -> None:
    first = build_archive(tree)
    copy = tmp_path / "copy" / "nodes"
    shutil.copytree(tree, copy)
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__/x.cpython-311.pyc").write_bytes(b"x")
    (copy / "below/__init__.py.orig").write_text("")
    os.utime(copy / "__main__.py", (1, 1))
    (copy / "__main__.py").chmod(0o600)
    assert build_archive(copy) == first


def test_another_source_is_another_archive(tree: Path) -> None:
    first = digest(build_archive(tree))
    (tree / "below/__init__.py").write_text("WORD = 'mutated'\n")
    assert digest(build_archive(tree)) != first


def test_a_folder_without_node_code_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"__main__\.py is missing"):
        build_archive(tmp_path)


def test_compiled_modules_run_instead_of_their_sources(tree: Path, tmp_path: Path) -> None:
    both = with_bytecode(build_archive(tree))
    changed = with_other_sources(both, importlib.util.MAGIC_NUMBER)
    assert output_of(changed, tmp_path) == "from below ['--config', 'f']\n"


def test_another_version_of_python_runs_the_sources(tree: Path, tmp_path: Path) -> None:
    both = with_bytecode(build_archive(tree))
    changed = with_other_sources(both, b"\0\0\r\n")
    assert output_of(changed, tmp_path) == "from source ['--config', 'f']\n"


def test_the_sources_stay_as_they_are_beside_the_compiled_modules(tree: Path) -> None:
    archive = build_archive(tree)
    with (
        zipfile.ZipFile(io.BytesIO(archive)) as sources,
        zipfile.ZipFile(io.BytesIO(with_bytecode(archive))) as both,
    ):
        names = sources.namelist()
        assert [both.read(name) for name in names] == [sources.read(name) for name in names]
        files = {file for file, _, _ in compiled_in(both)[0].values()}
        assert files == {name for name in names if name.startswith("kraftwreck/nodes/")}


def test_a_source_that_this_python_cannot_read_is_left_to_the_hosts(tree: Path) -> None:
    (tree / "newer.py").write_text("a syntax to come\n")
    (tree / "broken.py").write_text("import nothing_of_this_name\n")
    with zipfile.ZipFile(io.BytesIO(with_bytecode(build_archive(tree)))) as both:
        assert "kraftwreck/nodes/newer.py" in both.namelist()
        modules = set(compiled_in(both)[0])
    assert {"kraftwreck.nodes.below", "kraftwreck.nodes.broken"} < modules
    assert "kraftwreck.nodes.newer" not in modules


CLASSES = """
from dataclasses import dataclass, fields

@dataclass(slots=True)
class Pair:
    left: int
    right: int = 2

@dataclass(slots=True, frozen=True)
class Still:
    word: str
"""
SHOWN = """
import dataclasses, linecache, sys
import kraftwreck.nodes.below as b
from kraftwreck.nodes.classes import Pair, Still
print(Pair(1), Pair(1) == Pair(1, 2), Pair(1) == Pair(2), hash(Still("a")) == hash(Still("a")))
try:
    Still("a").word = "b"
except dataclasses.FrozenInstanceError as error:
    print(error)
file = sys.modules["kraftwreck.nodes.classes"].__file__
print(file.endswith("x.pyz/kraftwreck/nodes/classes.py"), b.__path__ == [b.__file__[:-12]])
print(linecache.getline(file, 4, vars(sys.modules["kraftwreck.nodes.classes"])).strip())
print(getattr(dataclasses, "exec", exec) is not exec)
"""


def test_classes_with_compiled_methods_are_the_same_as_without(tree: Path, tmp_path: Path) -> None:
    (tree / "classes.py").write_text(CLASSES)
    (tree / "__main__.py").write_text(SHOWN)
    archive = build_archive(tree)
    with zipfile.ZipFile(io.BytesIO(with_bytecode(archive))) as both:
        methods = compiled_in(both)[1]
    assert len(methods) == 3 + 6, "init, repr, eq; and hash, setattr, delattr if frozen"
    plain = output_of(archive, tmp_path).splitlines()
    quick = output_of(with_bytecode(archive), tmp_path).splitlines()
    assert plain[:-1] == quick[:-1]
    assert (plain[-1], quick[-1]) == ("False", "True")
    assert quick[0] == "Pair(left=1, right=2) True False True"
    assert quick[-2] == "@dataclass(slots=True)"


def test_what_was_compiled_is_kept_unless_it_was_damaged(
    tree: Path, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = build_archive(tree)
    first = compiled_archive.compiled(archive)
    (kept,) = own_cache.iterdir()
    with monkeypatch.context() as without:
        without.setattr(compiled_archive, "_compile", lambda archive: pytest.fail("compiled again"))
        assert compiled_archive.compiled(archive) == first
    for damaged in (b"", kept.read_bytes()[:-1], kept.read_bytes() + b"x"):
        kept.write_bytes(damaged)
        again = compiled_archive.compiled(archive)
        assert marshal.loads(again[4:])[0] == marshal.loads(first[4:])[0]  # noqa: S302 - our own
        assert kept.stat().st_size == 32 + len(again)


def test_only_the_last_ones_are_kept(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_archive, "_compile", lambda archive: archive)
    names: list[str] = []
    for number in range(compiled_archive.KEPT + 3):
        compiled_archive.compiled(b"%d" % number)
        new = {path.name for path in own_cache.iterdir()} - set(names)
        names += new
        for age, name in enumerate(reversed(names)):
            if (own_cache / name).exists():
                os.utime(own_cache / name, (1000 - age, 1000 - age))
    assert {path.name for path in own_cache.iterdir()} == set(names[-compiled_archive.KEPT :])


def test_a_cache_that_cannot_be_written_does_no_harm(
    tree: Path, tmp_path: Path, own_cache: Path
) -> None:
    own_cache.parent.mkdir(parents=True)
    own_cache.write_text("a file in its place")
    assert output_of(with_bytecode(build_archive(tree)), tmp_path).startswith("from below")
