"""Artefacts come from the ordinary tools, are what was pinned, and are fetched once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from kraftwreck.harness.deploy.artefacts import (
    ArtefactError,
    DebianPackages,
    Files,
    GoModule,
    Jars,
    MissingToolError,
    Wheels,
)
from kraftwreck.harness.deploy.cache import ArtefactCache, Fetched, cache_folder
from kraftwreck.histories.exit_codes import BAD_ARGUMENTS, FAILED, BadInputError


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def names_in(fetched: Fetched) -> set[str]:
    with tarfile.open(fetched.tar) as archive:
        return {entry.name for entry in archive if not entry.isdir()}


@pytest.fixture
def cache(tmp_path: Path) -> ArtefactCache:
    return ArtefactCache(tmp_path / "cache")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that comes first on PATH; programs in it take the place of real ones."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def tool(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a small Debian package."""
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    control = "Package: thing\nVersion: 1.2-3\nArchitecture: all\nMaintainer: x <x@y>\n"
    (tree / "DEBIAN/control").write_text(control + "Description: a thing\n")
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/thing").write_text("#!/bin/sh\necho thing\n")
    (tree / "usr/bin/link").symlink_to("thing")
    made = tmp_path / "thing_1.2-3_all.deb"
    subprocess.run(["dpkg-deb", "-b", str(tree), str(made)], check=True)
    return made


def test_debian_packages_are_extracted_and_fetched_once(
    cache: ArtefactCache, tools: Path, package: Path
) -> None:
    tool(tools, "apt-get", f'echo called "$@" >>{tools}/calls; cp {package} .')
    artefact = DebianPackages(name="thing", packages={"thing=1.2-3": sha256(package)})
    first = cache.fetch(artefact)
    assert names_in(first) == {"usr/bin/thing", "usr/bin/link"}
    assert cache.fetch(artefact) == first
    calls = (tools / "calls").read_text().splitlines()
    assert len(calls) == 1
    assert calls[0].endswith("download thing=1.2-3")
    assert list(cache.folder.glob(".part-*")) == []


def test_a_wrong_checksum_is_one_line_and_nothing_is_kept(
    cache: ArtefactCache, tools: Path, package: Path
) -> None:
    tool(tools, "apt-get", f"cp {package} .")
    artefact = DebianPackages(name="thing", packages={"thing=1.2-3": "0" * 64})
    with pytest.raises(
        ArtefactError, match=r"thing: wrong checksum: thing_1\.2-3_all\.deb"
    ) as raised:
        cache.fetch(artefact)
    assert raised.value.exit_code == FAILED
    assert list(cache.folder.iterdir()) == []


def test_a_version_that_is_not_in_the_lists_is_looked_for_in_new_ones(
    cache: ArtefactCache, tools: Path, package: Path
) -> None:
    script = f'case "$*" in *Dir::State*download*) cp {package} .;; *update*) ;; *)'
    tool(tools, "apt-get", f"{script} echo 'E: Version not found' >&2; exit 100;; esac")
    artefact = DebianPackages(name="thing", packages={"thing=1.2-3": sha256(package)})
    assert "usr/bin/thing" in names_in(cache.fetch(artefact))


def test_a_failing_tool_is_quoted(cache: ArtefactCache, tools: Path) -> None:
    tool(tools, "apt-get", "echo 'W: slow' >&2; echo 'E: no such version' >&2; exit 100")
    artefact = DebianPackages(name="thing", packages={"thing=9": "0" * 64})
    with pytest.raises(ArtefactError, match=r"^thing: `apt-get` failed: E: no such version$"):
        cache.fetch(artefact)


def test_a_damaged_entry_is_fetched_again(cache: ArtefactCache, tools: Path, package: Path) -> None:
    tool(tools, "apt-get", f"echo called >>{tools}/calls; cp {package} .")
    artefact = DebianPackages(name="thing", packages={"thing=1.2-3": sha256(package)})
    first = cache.fetch(artefact)
    for damaged in (first.tar, next((first.tar.parent / "downloads").iterdir())):
        content = bytearray(damaged.read_bytes())
        content[len(content) // 2] ^= 1
        damaged.write_bytes(content)
        assert cache.fetch(artefact) == first
    assert len((tools / "calls").read_text().splitlines()) == 3


def test_a_missing_tool_says_what_to_install(
    cache: ArtefactCache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for artefact, line in (
        (DebianPackages(name="a", packages={"a=1": "0" * 64}), "apt-get is missing"),
        (Jars(name="b", jars={"g:a:1": "0" * 64}), "mvn is missing: apt-get install maven"),
        (GoModule(name="c", program="c", files={}), "go is missing: apt-get install golang-go"),
    ):
        with pytest.raises(MissingToolError, match=line) as raised:
            cache.fetch(artefact)
        assert raised.value.exit_code == BAD_ARGUMENTS


def test_jars_lie_in_one_folder(cache: ArtefactCache, tools: Path, tmp_path: Path) -> None:
    jar = tmp_path / "server-2.0.jar"
    jar.write_bytes(b"a jar")
    script = (
        f'for word; do case "$word" in -DoutputDirectory=*) cp {jar} "${{word#*=}}";; esac; done'
    )
    tool(tools, "mvn", script)
    artefact = Jars(name="server", jars={"org.example:server:2.0": sha256(jar)})
    assert names_in(cache.fetch(artefact)) == {"server-2.0.jar"}


def test_wheels_are_installed_into_the_prefix(
    cache: ArtefactCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = subprocess.run([sys.executable, "-m", "pip", "--version"], check=False)
    if probe.returncode != 0:
        pytest.skip("this environment has no pip")
    index = tmp_path / "index"
    index.mkdir()
    wheel = index / "kw_thing-1.5-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("kw_thing/__init__.py", "VALUE = 5\n")
        facts = "kw_thing-1.5.dist-info"
        archive.writestr(
            f"{facts}/METADATA", "Metadata-Version: 2.1\nName: kw-thing\nVersion: 1.5\n"
        )
        tags = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{facts}/WHEEL", tags)
        archive.writestr(f"{facts}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    artefact = Wheels(name="thing", packages={"kw-thing==1.5": sha256(wheel)})
    assert "kw_thing/__init__.py" in names_in(cache.fetch(artefact))


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
def test_a_go_module_is_built_by_its_command(cache: ArtefactCache) -> None:
    main = 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("built") }\n'
    artefact = GoModule(
        name="hello",
        program="hello",
        files={"go.mod": "module hello\n\ngo 1.19\n", "main.go": main},
    )
    fetched = cache.fetch(artefact)
    assert names_in(fetched) == {"hello"}
    with tarfile.open(fetched.tar) as archive:
        archive.extract("hello", cache.folder)
    said = subprocess.run([cache.folder / "hello"], capture_output=True, text=True, check=True)
    assert said.stdout == "built\n"


def test_changed_files_are_another_artefact(cache: ArtefactCache, tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "one").write_text("1")
    artefact = Files(
        name="scripts", paths=(folder,), sha256={"scripts/one": sha256(folder / "one")}
    )
    first = cache.fetch(artefact)
    assert names_in(first) == {"scripts/one"}
    (folder / "one").write_text("2")
    with pytest.raises(ArtefactError, match="wrong checksum"):
        cache.fetch(artefact)
    assert cache.fetch(Files(name="scripts", paths=(folder,))).digest != first.digest


def test_names_that_are_no_folder_are_refused(cache: ArtefactCache, tmp_path: Path) -> None:
    file = Files(name="../up", paths=(tmp_path,))
    with pytest.raises(BadInputError, match="is not a name of an artefact"):
        cache.fetch_all([file])
    with pytest.raises(BadInputError, match="missing does not exist"):
        cache.fetch_all([Files(name="gone", paths=(tmp_path / "missing",))])


def test_the_cache_follows_the_xdg_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/kraftwreck/artefacts")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative is to be ignored")
    assert cache_folder() == Path.home() / ".cache/kraftwreck/artefacts"


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
def test_a_go_module_without_its_hashes_is_pinned_by_their_digest(cache: ArtefactCache) -> None:
    files = {"go.mod": "module hello\n\ngo 1.19\n", "main.go": "package main\n\nfunc main() {}\n"}
    artefact = GoModule(name="hello", program="hello", files=files, go_sum="0" * 64)
    with pytest.raises(ArtefactError, match=r"hello: .*go\.sum"):
        cache.fetch(artefact)
    assert artefact.identity() != GoModule(name="hello", program="hello", files=files).identity()
