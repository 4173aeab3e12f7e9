"""Bad input to every command and option: one line on standard error, 254 or 255, no traceback."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kraftwreck import nodes
from kraftwreck.cli.main import COMMANDS, cli
from kraftwreck.harness.own_options import everywhere
from kraftwreck.histories import column_size
from kraftwreck.runs import judge

Command = Callable[..., Any]
NO_NUMBERS = ["nan", "inf", "-inf", "-1", "1e999", "ten", "", "9" * 400]
"""No option takes any of these as a number."""
POSITIONAL = {
    "check": ["history.jsonl"],
    "replay": ["run"],
    "report": ["run"],
    "analyze": ["store"],
}


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with its words, subcommands too."""
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        if isinstance(command, click.Group):
            for below, each in command.commands.items():
                yield (name, below), each
        else:
            yield (name,), command


NUMERIC = [
    (words, option.opts[-1])
    for words, command in commands()
    for option in command.params
    if isinstance(option, click.Option)
    and isinstance(option.type, click.types.IntParamType | click.types.FloatParamType)
]


def test_every_numeric_option_has_bounds() -> None:
    """A type without bounds accepts ``inf``, or a number that no machine can serve."""
    for words, command in commands():
        for option in command.params:
            kind = option.type
            if isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
                bounds = getattr(kind, "min", None), getattr(kind, "max", None)
                assert None not in bounds, f"{' '.join(words)} {option.name}"
    assert len(NUMERIC) >= 20


@pytest.mark.parametrize(
    ("words", "option"), NUMERIC, ids=[f"{' '.join(words)} {name}" for words, name in NUMERIC]
)
def test_a_value_that_is_no_sensible_number_is_one_line(
    kraftwreck: Command, words: tuple[str, ...], option: str
) -> None:
    for value in NO_NUMBERS:
        ended = kraftwreck(*words, f"{option}={value}", *POSITIONAL.get(words[0], []))
        assert ended.code == 254, value
        assert ended.err.count("\n") == 1, ended.err
        assert option in ended.err
        assert ended.out == ""


CASES = [
    ("", "Missing command"),
    ("frob", "No such command"),
    ("run -t", "requires an argument"),
    ("run zab", "known systems"),
    ("run -w nosuch", "known workloads"),
    ("run -n kill,nosuch", "known faults"),
    ("run -c nosuch", "use netns, vagrant"),
    ("run -c hosts:", "use netns, vagrant"),
    ("run -c hosts:nosuch", "nosuch: cannot be read"),
    ("run -c hosts:file", "file line 1"),
    ("run -c hosts:binary", "binary"),
    ("run -c hosts:empty", "empty: cannot be read"),
    ("run --mutant ../R01", "unknown mutant"),
    ("run --mutant R01 --patch file", "cannot be combined"),
    ("run -c sim --combined", "--combined"),
    ("run -c sim --no-snapshots", "--no-snapshots"),
    ("sim kraft --patch file", "--patch is for cores"),
    ("run --option version=1", "option"),
    ("run -c sim -n host", "host"),
    ("run -c sim --patch nosuch", "nosuch: No such file"),
    ("run -c sim --patch file", "file: not a unified diff"),
    ("run -c sim --patch binary", "binary: not a text file"),
    ("run -c sim --patch empty", "empty: Is a directory"),
    ("run --style nosuch", "'--style'"),
    ("run --other nosuch", "'nosuch' does not exist"),
    ("run -c sim --store file", "'--store'"),
    ("run -c sim --floor nosuch=1", "floor"),
    ("run -c sim --floor led=nan", "floor"),
    ("sim zab", "known systems"),
    ("sim -w nosuch", "known workloads"),
    ("sim -n nosuch", "known faults"),
    ("sim -n host", "host"),
    ("sim --seeds x", "give A..B"),
    ("sim --seeds 3..1", "1 is before 3"),
    ("sim --seeds ²..³", "give A..B"),
    ("sim --seeds 0..", "needs --hours"),
    (f"sim --seeds 0..{10**30}", "give A..B"),
    (f"sim --seeds {'9' * 5000}", "give A..B"),
    ("sim --style nosuch", "'--style'"),
    ("sim --style timed --steer new", "cannot be combined"),
    ("sim --floor nosuch=1", "unknown name 'nosuch'"),
    ("sim --store file", "'--store'"),
    ("sim --coverage empty", "'--coverage'"),
    ("sim --coverage file --seeds 0", "file"),
    ("sim --coverage deep.json --seeds 0", "deep.json"),
    ("sim --steer file", "'--steer'"),
    ("table", "Missing argument"),
    ("table nosuch", "no such folder"),
    ("table empty --into nosuch", "nosuch: No such file"),
    ("table empty --into file", "has no lines"),
    ("table empty --into binary", "binary: "),
    ("replay nosuch", "nosuch/test.json: No such file"),
    ("replay file", "file: not a case"),
    ("replay binary", "binary: not a case"),
    ("replay deep.json", "deep.json: not a case"),
    ("replay empty", "empty/test.json: No such file"),
    ("replay torn", "torn/test.json"),
    ("replay deep", "deep/test.json"),
    ("replay list", "list/test.json"),
    ("replay words", "words/test.json"),
    ("replay huge", "huge/test.json"),
    ("replay crowd", "crowd/test.json"),
    ("replay unstarted", "the run did not start: set-up: n1: refused"),
    ("replay unstarted --node n1", "the run did not start"),
    ("shrink", "give either RUN, the folder of a run, or --seed"),
    ("shrink nosuch", "'nosuch' does not exist"),
    ("shrink file", "file: not a case"),
    ("shrink deep.json", "deep.json: not a case"),
    ("shrink empty", "empty/test.json: No such file"),
    ("shrink torn", "torn/test.json"),
    ("shrink words", "words/test.json"),
    ("shrink huge", "huge/test.json"),
    ("shrink unstarted", "unstarted/test.json"),
    ("shrink --seed 1 --mutant R01 --patch file", "cannot be combined"),
    ("shrink --seed 1 --mutant nosuch", "unknown mutant"),
    ("shrink --seed 1 --save file", "'--save'"),
    ("shrink --seed 1 --failure nosuch:I1", "no checker 'nosuch'"),
    ("shrink --seed 1 --name a/b --save cases", "'a/b' is not a file name"),
    ("shrink --seed 1 --name .. --save cases", "'..' is not a file name"),
    ("shrink --seed 1 --name case", "--name needs --save"),
    ("shrink --seed 1 --about= --save cases", "'' is not a line of text"),
    ("mutants nosuch", "unknown mutant"),
    ("mutants --patch nosuch", "'--patch'"),
    ("mutants --patch file", "file: not a unified diff"),
    ("mutants --style nosuch", "'--style'"),
    ("report nosuch", "nosuch"),
    ("report file", "file"),
    ("report empty", "empty"),
    ("report torn", "torn"),
    ("report deep", "deep"),
    ("analyze nosuch", "nosuch"),
    ("analyze file", "file"),
    ("analyze empty --master nosuch", "'nosuch' is not a Spark master"),
    ("analyze empty --master local[0x]", "'local[0x]' is not a Spark master"),
    ("serve nosuch", "nosuch: not a directory"),
    ("serve file", "file: not a directory"),
    ("serve torn", "torn: a run folder"),
    ("serve empty --bind nosuch.invalid", "cannot listen on nosuch.invalid"),
    ("serve empty --export empty/site", "is in the store"),
    ("serve empty --export file", "file: not a directory"),
    ("serve empty --reports nosuch", "'--reports'"),
    ("nightly", "give CONFIG.toml, or --confirm"),
    ("nightly nosuch", "nosuch: No such file"),
    ("nightly empty", "empty: Is a directory"),
    ("nightly file", "file: not TOML"),
    ("nightly binary", "binary: not TOML"),
    ("nightly deep.toml", "deep.toml: "),
    ("nightly file --new --resume", "cannot be combined"),
    ("nightly file --tree clean", "need --confirm"),
    ("nightly --confirm nosuch", "NIGHT#N"),
    ("nightly --confirm empty#1", "empty"),
    (f"nightly --confirm empty#{'9' * 30}", "NIGHT#N"),
    ("nightly --confirm empty#1 --plan", "--confirm only allows"),
    ("cluster frob", "No such command"),
    ("cluster up -c nosuch", "use netns, vagrant"),
    ("cluster up -c hosts:nosuch", "nosuch: cannot be read"),
    ("cluster status -c nosuch", "use netns, vagrant"),
    ("cluster heal nosuch", "'nosuch' not found on this machine"),
    ("cluster heal -c hosts:file", "file line 1"),
    ("cluster doctor nosuch", "'nosuch' not found on this machine"),
    ("cluster doctor -c nosuch", "use netns, vagrant"),
    ("cluster down nosuch", "'nosuch' not found on this machine"),
    ("cluster down -c nosuch", "use netns, vagrant"),
    ("check nosuch --model nosuch", "no model 'nosuch'"),
    ("check file --model register --format nosuch", "'--format'"),
    ("check file --model register --engine nosuch", "'--engine'"),
    ("check file --model register --engine elle", "--engine elle needs"),
    ("check file --model register -o x", "NAME=JSON"),
    ("check txn.jsonl -m list-append --consistency-model nosuch", "no consistency model 'nosuch'"),
    ("check txn.jsonl -m list-append --anomaly nosuch", "no anomaly 'nosuch'"),
    ("check txn.jsonl -m list-append --witness empty", "File 'empty' is a directory"),
    ("check txn.jsonl -m list-append --witness file/x", "file: not a directory"),
    ("check txn.jsonl -m list-append --graph nosuch/x", "nosuch: not a directory"),
    ("check txn.jsonl -m register --graph x", "--graph needs --model list-append or rw-register"),
    ("check txn.jsonl txn.jsonl -m list-append --graph x", "--graph is for one history; got 2"),
    ("check txn.jsonl -m list-append --report nosuch/x", "nosuch: not a directory"),
    ("check txn.jsonl -m list-append --engine elle --elle nosuch", "there is no nosuch"),
    ("check txn.jsonl -m list-append --elle nosuch", "--elle needs --engine elle"),
    ("check txn.jsonl -m register --master nosuch", "'nosuch' is not a Spark master"),
    ("check txn.jsonl -m list-append -c read-committed", "No such option"),
    ("convert txn.jsonl out.edn --from nosuch", "'--from'"),
    ("convert txn.jsonl out.edn --to nosuch", "'--to'"),
    ("convert txn.jsonl out.xyz", "convert: out.xyz: unknown kind of file; say --to"),
    ("convert in.xyz out.edn", "convert: in.xyz: unknown kind of file; say --from"),
    ("list nosuch", "extra argument"),
]
"""A command line, and what its error says."""


def test_every_option_with_a_value_has_a_case_of_bad_input() -> None:
    """Numbers have their own: every numeric option is tried with :data:`NO_NUMBERS`.

    Options of one system are tried in its own tests.
    """
    own = {
        f"--{option.name}"
        for each in everywhere().values()
        for option in (*each.run, *each.campaign)
    }
    tried = [line.split() for line, _ in CASES]
    for words, command in commands():
        mine = [line for line in tried if tuple(line[: len(words)]) == words]
        for option in command.params:
            if not isinstance(option, click.Option) or option.is_flag:
                continue
            if (words, option.opts[-1]) in NUMERIC or option.opts[-1] in own:
                continue
            named = any(word.partition("=")[0] in option.opts for line in mine for word in line)
            assert named, f"{' '.join(words)} {option.opts[-1]} has no case of bad input"


def test_an_option_means_the_same_in_every_command() -> None:
    """A short name belongs to one long name, and a long name has the same short one."""
    long_of: dict[str, set[str]] = {}
    short_of: dict[str, set[str]] = {}
    for _, command in commands():
        for option in command.params:
            if isinstance(option, click.Option):
                long = next(name for name in option.opts if name.startswith("--"))
                shorts = [name for name in option.opts if not name.startswith("--")]
                short_of.setdefault(long, set()).add(" ".join(shorts))
                for short in shorts:
                    long_of.setdefault(short, set()).add(long)
    assert {short: longs for short, longs in long_of.items() if len(longs) > 1} == {}
    assert {long: shorts for long, shorts in short_of.items() if len(shorts) > 1} == {}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: files and folders that are not what commands expect."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("not what you want\n")
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "txn.jsonl").write_text(
        '{"process":0,"type":"invoke","f":"txn","value":[["append",1,1]]}\n'
    )
    (tmp_path / "empty").mkdir()
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "deep.toml").write_text("name = " + "[" * 100_000)
    for name, text in {
        "torn": '{"simulated": tr',
        "deep": "[" * 100_000,
        "list": "[]",
        "words": '{"simulated": true, "options": {"nodes": "many"}, "schedule": 1, "knobs": []}',
        "huge": '{"simulated": true, "digest": 1, "schedule": [], "knobs": {}, "options": {"seed": '
        + "9" * 400 + "}}",
        "crowd": '{"simulated": true, "digest": 1, "schedule": [], "knobs": {}, "options":'
        ' {"nodes": 1000000000}}',
        "unstarted": '{"simulated": false, "errors": ["set-up: n1: refused"], "options": {}}',
    }.items():  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "test.json").write_text(text)
    return tmp_path


@pytest.mark.parametrize(("line", "said"), CASES)
def test_bad_input_is_one_line_and_254(
    kraftwreck: Command, folder: Path, line: str, said: str
) -> None:
    ended = kraftwreck(*line.split())
    assert ended.code == 254, ended.err
    assert ended.err.count("\n") == 1, ended.err
    assert said in ended.err
    assert ended.err.startswith("kraftwreck")
    assert ended.out == ""
    assert not (folder / "store").exists()


def test_patched_nodes_that_cannot_be_imported_are_one_line(
    kraftwreck: Command, tmp_path: Path
) -> None:
    patch = tmp_path / "broken.patch"
    lines = Path(str(nodes.__file__)).read_text().splitlines(keepends=True)[:3]
    patch.write_text(
        "--- a/nodes/__init__.py\n+++ b/nodes/__init__.py\n@@ -1,3 +1,4 @@\n"
        f"+raise ImportError('planted')\n {' '.join(lines)}"
    )
    ended = kraftwreck("run", "-c", "sim", "--patch", patch, "--store", tmp_path / "store")
    assert ended.code == 255
    assert ended.err.splitlines()[1:] == ["kraftwreck run: the patched nodes: ImportError: planted"]


def test_an_unknown_cluster_is_answered_with_all_that_a_run_may_have(
    kraftwreck: Command,
) -> None:
    ended = kraftwreck("run", "-c", "mars")
    assert ended.code == 254
    assert "'mars' is unknown; use netns, vagrant, hosts:FILE, sim" in ended.err


def test_a_report_that_cannot_be_written_is_no_success(
    kraftwreck: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(judge, "write_json", full)
    ended = kraftwreck("run", "-c", "sim", "-t", 8, "--seed", 1, "--floor", "none")
    assert ended.code == 255
    assert "verdict: valid" in ended.out
    assert "harness: report: [Errno 28] No space left on device" in ended.err


@pytest.mark.parametrize(
    ("store", "why"),
    [("file/store", "Not a directory"), ("/proc/none", "No such file or directory")],
)
def test_a_store_that_cannot_be_made_is_one_line_and_254(
    kraftwreck: Command, folder: Path, store: str, why: str
) -> None:
    ended = kraftwreck("run", "-c", "sim", "--store", store)
    assert ended.code == 254
    assert ended.err == f"kraftwreck run: {store}: {why}; choose another --store\n"


def test_no_room_for_a_store_is_no_bad_input(
    kraftwreck: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    ended = kraftwreck("run", "-c", "sim", "--store", "new")
    assert ended.code == 255
    assert ended.err == "kraftwreck run: new: No space left on device; choose another --store\n"


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_small_file_that_unpacks_to_gigabytes_is_refused_unread(
    kraftwreck: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    zeros = pa.chunked_array([pa.array(np.zeros(1_000_000, np.int64))] * 150)
    table = pa.table({"index": zeros, "time": zeros})
    if kind == "arrow":
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file("bomb.arrow", table.schema, options=options) as file:
            file.write_table(table)
    else:
        pq.write_table(table, "bomb.parquet", compression="zstd", row_group_size=len(table))
    assert Path(f"bomb.{kind}").stat().st_size < 2_000_000
    monkeypatch.setattr(column_size, "most_bytes", lambda: 1 << 30)
    ended = kraftwreck("check", f"bomb.{kind}", "--model", "register")
    assert ended.code == 254
    assert ended.err == (
        f"kraftwreck check: bomb.{kind}: unpacks to at least 2.4 GB, more than the 1.1 GB"
        " allowed here (half of the memory); split it, or use a larger machine\n"
    )


@pytest.mark.parametrize("kind", ["parquet", "arrow", "nested"])
@pytest.mark.parametrize("model", ["register", "list-append", "set-full", "log"])
def test_a_text_that_a_small_file_stores_once_is_counted_where_it_occurs(
    kraftwreck: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str, model: str
) -> None:
    """A dictionary holds one string of 8 MiB, for 100 rows; the limit here is an eighth of 2 GB."""
    monkeypatch.setattr(column_size, "most_bytes", lambda: 1 << 30)
    rows = 100
    texts = pa.DictionaryArray.from_arrays(
        pa.array([0] * rows, pa.int32()), pa.array(['"' + "x" * (8 << 20) + '"'])
    )
    value = pa.ListArray.from_arrays(list(range(rows + 1)), texts) if kind == "nested" else texts
    table = pa.table(
        {
            "index": list(range(rows)),
            "process": list(range(rows)),
            "type": ["invoke"] * rows,
            "f": ["write"] * rows,
            "value": value,
            "time": list(range(rows)),
        }
    )
    if kind == "arrow":
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file("bomb.arrow", table.schema, options=options) as file:
            file.write_table(table)
    else:
        pq.write_table(table, "bomb.parquet", compression="zstd", dictionary_pagesize_limit=1 << 30)
    path = Path("bomb.arrow" if kind == "arrow" else "bomb.parquet")
    assert path.stat().st_size < 20_000
    before = pa.total_allocated_bytes()
    ended = kraftwreck("check", path, "--model", model)
    assert ended.code == 254
    assert ended.err == (
        f"kraftwreck check: {path}: holds text of at least 0.8 GB, more than the 0.3 GB"
        " allowed here (an eighth of the memory); split it, or use a larger machine\n"
    )
    assert pa.total_allocated_bytes() - before < 100 << 20


ON_A_SMALL_DISK = """
mount -t tmpfs -o size=$1 tmpfs "$2" || exit 9
cd "$2"; shift 2
"$@"
"""


@pytest.mark.cluster
@pytest.mark.parametrize("size", ["64k", "512k"])
def test_a_full_disk_in_the_simulator_is_one_line_and_255(
    tmp_path: Path, netns_possible: None, size: str
) -> None:
    command = [sys.executable, "-m", "kraftwreck", "run", "-c", "sim", "-t", "30", "--seed", "1"]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", ON_A_SMALL_DISK, "sh", size, str(tmp_path), *command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    assert done.returncode == 255, done.stderr
    assert "Traceback" not in done.stderr
    assert "this is a bug" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("kraftwreck run: ")]
    assert "No space left on device" in line
    assert "store/kraft-metadata/" in line


def test_output_that_cannot_be_written_is_one_line_and_255() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kraftwreck", "list"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 255
    assert done.stderr == "kraftwreck list: No space left on device\n"
