"""Whole tests in virtual time: our nodes, workloads, faults and checkers, from a seed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraftwreck.campaigns.campaign import combined_digest, judge, run_seed
from kraftwreck.checkers.recorded.run_data import RunData
from kraftwreck.cli.main import status
from kraftwreck.harness.options import OptionError, RunOptions
from kraftwreck.harness.simulated.result import SimResult
from kraftwreck.harness.triggers import TriggerError, known, parse
from kraftwreck.histories.fault import Fault
from kraftwreck.histories.operation import INVOKE
from kraftwreck.nemesis import triggers
from kraftwreck.nemesis.inject import Injector
from kraftwreck.nemesis.scope import Scope
from kraftwreck.nodes.consensus.effects import Tick
from kraftwreck.nodes.consensus.endpoint import Endpoint
from kraftwreck.nodes.consensus.recovered import Recovered
from kraftwreck.nodes.node import Node
from kraftwreck.nodes.node_config import NodeConfig
from kraftwreck.nodes.server.input_log import InputLog
from kraftwreck.runs.replay import replay_nodes, replay_simulated
from kraftwreck.systems.campaign import FAULTS as ALL_FAULTS
from kraftwreck.systems.kraft.simulated.campaign import KraftCampaign as Campaign
from kraftwreck.systems.kraft.simulated.knobs import Knobs
from kraftwreck.systems.kraft.simulated.run import simulate
from kraftwreck.systems.kraft.simulated.store import load, run, save
from kraftwreck.workloads.registry import find

ROOT = Path(__file__).resolve().parents[2]
SECOND = 1_000_000_000
FAULTS = ("partition", "kill", "pause")


def simulated(
    *schedule: Fault, seed: int = 1, seconds: float = 8.0, knobs: Knobs | None = None
) -> SimResult:
    families = tuple(sorted({fault.kind for fault in schedule}))
    options = RunOptions(
        seed=seed, time_limit_s=seconds, rate=10, cluster="sim", nodes=3, faults=families
    )
    return simulate(options, find("metadata"), schedule, Injector, knobs=knobs or Knobs())


def fault(
    kind: str,
    shape: str,
    at_s: float,
    for_s: float,
    *,
    draw: int = 5,
    targets: tuple[str, ...] = (),
    trigger: str | None = None,
) -> Fault:
    return Fault(
        kind=kind,
        shape=shape,
        at=round(at_s * SECOND),
        duration=round(for_s * SECOND),
        draw=draw,
        targets=targets,
        trigger=trigger,
    )


# --- determinism --------------------------------------------------------------------------


def test_a_seed_is_one_run() -> None:
    campaign = Campaign(time_limit_s=8)
    first, again = (run_seed(campaign, 5, keep=False) for _ in range(2))
    assert (first.digest, first.sim_s, first.workload) == (again.digest, again.sim_s, "leader")
    assert run_seed(campaign, 9, keep=False).digest != first.digest


def test_the_digest_of_a_campaign_does_not_depend_on_the_order_of_its_runs() -> None:
    tested = [run_seed(Campaign(time_limit_s=2), seed, keep=False) for seed in range(3)]
    assert combined_digest(tested) == combined_digest(tested[::-1])


@pytest.mark.many_runs
@pytest.mark.parametrize("seed", [200890, 203549, 204229, 212199, 215016, 216111, 216387])
def test_a_false_alarm_does_not_come_back(seed: int) -> None:
    """Seven of 20,000 runs of 20 s of a clean build were once flagged: by C16, I24, F2, I18, F2,
    L11 and C14. The seeds draw other runs by now. The causes have their own tests beside each
    rule."""
    tested = run_seed(Campaign(time_limit_s=20), seed, keep=False)
    assert (tested.found, tested.unknown) == ([], [])


@pytest.mark.many_runs
@pytest.mark.parametrize("first", range(1000, 1020, 4))
def test_the_clean_build_is_never_flagged(first: int) -> None:
    campaign = Campaign(nodes=0)
    for seed in range(first, first + 4):
        tested = run_seed(campaign, seed, keep=False)
        assert (seed, tested.found, tested.unknown) == (seed, [], [])


# --- what happens in a run ----------------------------------------------------------------


def test_without_faults_everything_succeeds() -> None:
    result = simulated()
    assert result.failures == []
    kinds = {op.type for op in result.ops if op.time > 3 * SECOND}
    assert kinds == {INVOKE, "ok", "fail"} or kinds == {INVOKE, "ok"}
    assert "info" not in kinds
    assert [op.node for op in result.ops if op.final and op.type == "ok"][1:] == ["n1", "n2", "n3"]
    assert judge(result, find("metadata")).valid is True


def test_a_killed_leader_is_replaced_and_its_disk_is_kept() -> None:
    result = simulated(fault("kill", "leader", 3, 3))
    victim = result.faults[0].targets[0]
    leaders = {e.node for e in result.events if e.kind == "elected"}
    assert victim in leaders
    assert len(leaders) > 1
    labels = {(image.node, image.label) for image in result.images}
    assert (victim, "kill-1") in labels
    assert {("n1", "final"), ("n2", "final"), ("n3", "final")} <= labels
    assert result.faults[1].evidence[victim] == {"started": True, "incarnation": 2}


def test_dropped_messages_prove_a_partition() -> None:
    result = simulated(fault("partition", "leader", 3, 4))
    start, stop = result.faults
    assert start.targets == stop.targets
    assert sum(entry["dropped"] for entry in stop.evidence.values() if "dropped" in entry) > 0
    resigned = [e for e in result.events if e.kind == "resign"]
    assert [e.node for e in resigned] == start.targets


def test_a_triggered_fault_strikes_the_node_that_made_the_transition() -> None:
    aimed = fault("kill", "one", 0, 1, targets=("@",), trigger="elected#1")
    result = simulated(aimed)
    elected = next(e for e in result.events if e.kind == "elected")
    assert result.faults[0].targets == [elected.node]
    assert result.faults[0].detail["trigger"] == "elected#1"
    after = result.faults[0].time // 1000
    offset = result.test["clock"][elected.node]["offset_us"]
    assert 0 <= after - (elected.mono - offset) <= 300_000


def test_triggered_schedules_come_from_the_seed_and_name_known_triggers() -> None:
    nodes = ("n1", "n2", "n3", "n4", "n5")
    seen = set()
    for seed in range(30):
        plan = triggers.plan(FAULTS, seed, 30, Scope.of("kraft", nodes))
        assert plan == triggers.plan(FAULTS, seed, 30, Scope.of("kraft", nodes))
        assert plan
        for planned in plan:
            if planned.trigger is None:
                assert planned.shape == "leader", "a kick, for what a healthy cluster never does"
            else:
                seen.add(parse(planned.trigger)[0])
    assert seen <= set(known())
    assert {"elected", "grant", "append"} <= seen
    assert triggers.plan((), 1, 30, Scope.of("kraft", nodes)) == []


def test_an_unknown_trigger_is_refused_by_name() -> None:
    with pytest.raises(TriggerError, match="unknown trigger 'tea'; known: prospective"):
        simulated(fault("kill", "one", 0, 1, trigger="tea"))
    with pytest.raises(TriggerError, match="positive"):
        parse("grant#0")


def test_a_run_that_loses_power_loses_no_acknowledged_write() -> None:
    kills = [fault("kill", "all", at, 0.5, draw=at) for at in (2, 4, 6)]
    knobs = Knobs(power_loss=100, fsync_min=2_000, fsync_max=30_000)
    result = simulated(*kills, knobs=knobs)
    assert result.failures == []
    assert judge(result, find("metadata")).valid is True


def test_losses_of_power_lose_no_acknowledged_write() -> None:
    cuts = [fault("power", "all", at, 0.5, draw=at) for at in (2, 4, 6)]
    result = simulated(*cuts, knobs=Knobs(fsync_min=2_000, fsync_max=30_000))
    assert all(e.evidence["n1"]["power_lost"] for e in result.faults if e.phase == "start")
    assert result.failures == []
    assert result.test["fault_model"]["power_loss"] is True
    assert judge(result, find("metadata")).valid is True


# --- snapshots and voters -------------------------------------------------------------------

OFTEN = {"snapshot_bytes": 1_000, "retention_bytes": 1, "clean_interval_ms": 200}


def test_snapshots_are_made_kept_few_and_fetched_in_pieces_by_late_nodes() -> None:
    knobs = Knobs(node={**OFTEN, "fetch_snapshot_max_bytes": 200}, segment_bytes=1)
    result = simulated(fault("kill", "one", 2, 5, targets=("n1",)), knobs=knobs)
    assert result.failures == []
    kinds = {(event.node, event.kind) for event in result.events}
    assert {("n1", "install"), ("n2", "snapshot"), ("n2", "clean"), ("n1", "load")} <= kinds
    for image in result.images:
        if image.label == "final":
            assert image.start_offset > 0
            assert 1 <= len(image.snapshots) <= 2
            assert image.snapshots[0][0].endswith(".checkpoint")
    assert judge(result, find("metadata")).valid is True


def test_a_dynamic_quorum_begins_with_the_voters_it_was_formatted_with() -> None:
    result = simulated(knobs=Knobs(dynamic=True, first_voters=2))
    assert result.failures == []
    told = [event for event in result.events if event.kind == "voters" and event.node == "n1"]
    assert {tuple(i for i, _ in event.detail["voters"]) for event in told} == {(1, 2)}
    assert result.test["fault_model"]["quorum"] == "dynamic"
    assert result.test["fault_model"]["first_voters"] == [1, 2]
    assert {event.node for event in result.events if event.hw > 0} == {"n1", "n2", "n3"}


def test_a_controller_is_voted_out_and_in_again() -> None:
    result = simulated(
        fault("membership", "one", 3, 2, targets=("n1",)),
        knobs=Knobs(dynamic=True, first_voters=3),
        seconds=10,
    )
    assert result.failures == []
    sets = [
        tuple(i for i, _ in event.detail["voters"])
        for event in result.events
        if event.kind == "voters" and event.node == "n2" and event.detail["offset"] >= 0
    ]
    assert sets == [(1, 2, 3), (2, 3), (1, 2, 3)]
    assert judge(result, find("metadata")).valid is True


def test_a_machine_with_a_new_disk_takes_the_place_of_the_old_one() -> None:
    result = simulated(
        fault("membership", "grow", 2, 0.1),
        fault("membership", "replace", 4, 1, targets=("n1",)),
        knobs=Knobs(dynamic=True, first_voters=3, node=OFTEN),
        seconds=10,
        seed=2,
    )
    leader = next(event.node for event in result.events if event.kind == "elected")
    assert leader != "n1", "a leader's machine is another test"
    assert result.failures == []
    assert result.test["fault_model"]["wiped"] == ["n1"]
    disks = {image.label: image.directory for image in result.images if image.node == "n1"}
    assert disks["kill-1"] != disks["final"]
    last = [event for event in result.events if event.kind == "voters"][-1]
    assert [i for i, _ in last.detail["voters"]] == [1, 2, 3]


def test_a_static_quorum_never_loses_a_disk() -> None:
    result = simulated(fault("membership", "replace", 2, 2))
    assert result.faults[0].detail["skipped"] == "the quorum is static"
    assert result.test["fault_model"]["wiped"] == []


def test_images_in_a_run_folder_are_those_of_the_run(tmp_path: Path) -> None:
    options = RunOptions(
        seed=1, time_limit_s=5, rate=10, cluster="sim", nodes=3, store=tmp_path, faults=FAULTS
    )
    knobs = Knobs(dynamic=True, first_voters=3, node=OFTEN, segment_bytes=1)
    schedule = [fault("kill", "leader", 3, 1)]
    result = simulate(options, find("metadata"), schedule, Injector, knobs=knobs)
    folder = save(options, find("metadata"), result)
    stored = RunData.from_folder(folder).images
    wanted = sorted(result.images, key=lambda image: (image.node, image.label))
    assert sorted(stored, key=lambda image: (image.node, image.label)) == wanted
    assert all(image.start_offset > 0 and image.snapshots for image in stored)
    assert {image.quorum_state["data_version"] for image in stored if image.quorum_state} == {1}
    assert replay_simulated(folder)["same"] is True


# --- brokers --------------------------------------------------------------------------------


def test_clients_may_write_through_brokers_and_read_from_controllers() -> None:
    result = simulated(knobs=Knobs(brokers=2, through_brokers=True))
    assert result.failures == []
    served = {(op.f, op.node) for op in result.ops if op.type == "ok" and not op.final}
    assert {node for f, node in served if f != "read"} == {"b1", "b2"}
    assert {node for f, node in served if f == "read"} < {"n1", "n2", "n3"}
    finals = [op.node for op in result.ops if op.final and op.type == "ok"]
    assert finals[1:] == ["n1", "n2", "n3", "b1", "b2"]
    assert judge(result, find("metadata")).valid is True


@pytest.mark.parametrize("brokers", [0, 2])
@pytest.mark.many_runs
def test_phantom_brokers_live_whole_lives(brokers: int) -> None:
    options = RunOptions(seed=3, time_limit_s=40, rate=24, concurrency=6, cluster="sim", nodes=3)
    node = {"session_timeout_ms": 1_000, "heartbeat_interval_ms": 200}
    workload = find("partitions")
    schedule = [fault("kill", "leader", at, 1.5, draw=at) for at in (10, 20, 30)]
    knobs = Knobs(brokers=brokers, node=node)
    result = simulate(options, workload, schedule, Injector, knobs=knobs)
    verdict = judge(result, workload)
    assert verdict.valid is True
    done = {op.f for op in result.ops if op.type == "ok"}
    assert {"beat", "isr", "ids", "create", "grow", "reassign", "describe"} <= done
    invariants = verdict.checkers["invariants"].stats["invariants"]
    assert invariants["C8"]["facts"] > 10, "accepted proposals"
    judged = {each for each, told in invariants.items() if told["status"] == "checked"}
    assert {"C1", "C2", "C3", "C4", "C5", "C6", "C8", "C10", "C11", "C14", "C16"} <= judged
    assert not [op.error for op in result.ops if op.error and "unusable" in op.error]


# --- the invariants see ---------------------------------------------------------------------


@pytest.mark.interpreted
def test_a_cluster_that_does_not_recover_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nobody campaigns any more: what a lost timer would do.
    monkeypatch.setattr(
        "kraftwreck.nodes.consensus.kraft.replica.Replica.become_prospective", lambda _: None
    )
    result = simulated(seconds=2)
    types = {failure.type for failure in result.failures}
    assert types & {"L1", "I29"}
    assert judge(result, find("metadata")).valid is False


@pytest.mark.interpreted
def test_two_leaders_of_one_epoch_are_seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraftwreck.nodes.consensus.kraft.election.majority", lambda voters: 1)
    result = simulated(fault("partition", "halves", 0, 3))
    assert {"I1", "I5"} <= {failure.type for failure in result.failures}


# --- run folders and replay -------------------------------------------------------------------


def test_a_run_folder_has_all_evidence_and_replays(tmp_path: Path) -> None:
    options = RunOptions(
        seed=4, time_limit_s=6, rate=10, cluster="sim", nodes=3, store=tmp_path, faults=FAULTS
    )
    schedule = [fault("kill", "leader", 2, 1), fault("pause", "one", 3, 1)]
    folder = run(options, workload=find("metadata"), schedule=schedule, injector=Injector)
    assert folder.parent == tmp_path / "kraft-metadata"
    data = RunData.from_folder(folder)
    assert data.test["simulated"] is True
    assert len(data.faults) == 4
    assert {image.label for image in data.images} == {"kill-1", "final"}
    again, planned, knobs, digest = load(folder)
    assert (again, planned) == (options, schedule)
    assert simulate(again, find("metadata"), planned, Injector, knobs=knobs).digest == digest
    assert replay_simulated(folder)["same"] is True


def test_replay_reports_a_different_run(tmp_path: Path) -> None:
    options = RunOptions(time_limit_s=2, rate=5, cluster="sim", nodes=3, store=tmp_path)
    result = simulate(options, find("leader"), [], Injector)
    result.digest = "0" * 32
    folder = save(options, find("leader"), result)
    assert status(["replay", str(folder)]) == 1


def test_replay_runs_each_node_of_a_real_run_again(tmp_path: Path) -> None:
    config = NodeConfig(1, "cluster", bytes(16), {1: Endpoint("n1", 1)})
    folder = tmp_path / "nodes" / "n1"
    folder.mkdir(parents=True)
    (tmp_path / "nodes" / "n2").mkdir()
    (tmp_path / "test.json").write_text("{}")
    node, log = Node(config, Recovered(), 0, 0), InputLog(folder / "inputs.log")
    log.start(config, Recovered(), 0, 0, node.start(0, 0))
    log.step(Tick(), 5, 1000, node.step(Tick(), 5, 1))
    [same] = replay_nodes(tmp_path, "n1")
    assert (same["same"], same["starts"], same["inputs"]) == (True, 1, 1)
    assert [found["same"] for found in replay_nodes(tmp_path, None)] == [True, None]
    log.step(Tick(), 10_000_000, 9, [])
    [different] = replay_nodes(tmp_path, "n1")
    assert different["same"] is False
    assert "line 3" in different["reason"]
    with pytest.raises(OptionError, match="no node 'n7'"):
        replay_nodes(tmp_path, "n7")


# --- the command --------------------------------------------------------------------------


def test_sim_prints_one_json_object_and_is_repeatable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["sim", "-t", "3", "--seeds", "0..3", "--store", str(tmp_path), "--json"]
    outputs = []
    for jobs in ("1", "2"):
        assert status([*arguments, "--jobs", jobs]) == 0
        outputs.append(json.loads(capsys.readouterr().out))
    for output in outputs:
        assert (output["runs"], output["failures"]) == (4, 0)
        assert output["sim_s"] > 12
    assert outputs[0]["digest"] == outputs[1]["digest"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "9..3"], "3 is before 9"),
        (["--seeds", "x"], "give A..B"),
        (["--seeds", "5.."], "needs --hours"),
        (["-w", "tea"], "unknown workload 'tea'"),
        (["-n", "tea"], "unknown fault 'tea'"),
        (["tea"], "unknown system 'tea'"),
    ],
)
def test_sim_refuses_bad_arguments_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["sim", *arguments]) == 254
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_replay_refuses_a_folder_without_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["replay", str(tmp_path / "nothing")]) == 254
    assert "pass a run folder" in capsys.readouterr().err


@pytest.mark.interpreted
def test_a_failing_run_is_kept_with_the_command_that_repeats_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraftwreck.nodes.consensus.kraft.election.majority", lambda voters: 1)
    tested = run_seed(Campaign(time_limit_s=4, store=tmp_path), 2)
    assert tested.found
    assert tested.run is not None
    test = json.loads((Path(tested.run) / "test.json").read_text())
    families = ",".join(ALL_FAULTS)
    assert test["repeat"].startswith(f"kraftwreck sim kraft -w all -n {families} -t 4 ")
    assert test["repeat"].endswith("--seeds 2..2")
    verdict = json.loads((Path(tested.run) / "results.json").read_text())
    assert verdict["valid"] is False
