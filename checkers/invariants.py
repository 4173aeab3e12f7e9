"""The quorum's invariants as the nodes' own traces show them, by their ids.

I1 ElectionSafety, I2 VoteOnce, I3 VotePersisted, I4 VoteUpToDate, I5 LeaderHasMajority,
I6 MonotonicEpoch, I7 EpochInLog, I8 LogMatching, I9 LeaderCompleteness, I10
CommittedStable, I11 CommittedOnMajority, I12 CurrentEpochCommit, I13 MonotonicHW, I14
NoTruncateBelowHW, I15 RestartNotLeader, I16 PrevoteHarmless, I18 CheckQuorum, I25
ListenerOrder, I29 NoIllegalState, and controller-error for what a controller could not do.
Sources: Ongaro and Ousterhout 2014; KIP-595, KIP-996; the invariants of Kafka's
RaftEventSimulationTest and of Vanlightly's TLA+ specifications.
"""

from __future__ import annotations

from checkers.deposed import stale_leaders
from checkers.epochs import missing_traces
from checkers.findings import Findings
from checkers.run_data import RunData
from checkers.trace_pass import trace_pass
from histories.verdict import CheckerResult


def check(run: RunData) -> CheckerResult:
    """Valid iff the traces are complete and break no invariant."""
    facts = trace_pass(run)
    findings = Findings()
    for stale in stale_leaders(run, facts, [])[0]:
        findings.add("I18", stale.explanation, stale.events)
    anomalies = facts.findings.anomalies + findings.anomalies
    doubt = missing_traces(run, facts)
    if facts.count == 0:
        doubt = "there is no trace: nothing was checked"
    return CheckerResult(
        valid=False if anomalies else "unknown" if doubt else True,
        anomalies=anomalies,
        stats={
            "events": facts.count,
            "elections": len(facts.chain.elections),
            "batches": len(facts.chain.batches),
            "committed_batches": len(facts.chain.committed),
            "broken": {**facts.findings.counts, **findings.counts},
        },
        error=doubt,
    )
