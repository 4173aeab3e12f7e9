"""The RPCs of the Raft core. Their API keys lie above all of Kafka's."""

from __future__ import annotations

from typing import Final

_REQUEST_VOTE: Final = """
RequestVoteRequest key=10001 valid=0-0 flex=0+
  ClusterId:string, Term:int32, CandidateId:int32, LastTerm:int32, LastOffset:int64, PreVote:bool

RequestVoteResponse key=10001 valid=0-0 flex=0+
  Term:int32, Granted:bool
"""
_APPEND_ENTRIES: Final = """
AppendEntriesRequest key=10002 valid=0-0 flex=0+
  ClusterId:string, Term:int32, LeaderId:int32, PrevOffset:int64, PrevTerm:int32
  LeaderCommit:int64, Entries:bytes

AppendEntriesResponse key=10002 valid=0-0 flex=0+
  Term:int32, Success:bool, MatchOffset:int64, ConflictTerm:int32, ConflictOffset:int64
"""
_INSTALL_SNAPSHOT: Final = """
InstallSnapshotRequest key=10003 valid=0-0 flex=0+
  ClusterId:string, Term:int32, LeaderId:int32, EndOffset:int64, EndTerm:int32
  Size:int64, Position:int64, Data:bytes

InstallSnapshotResponse key=10003 valid=0-0 flex=0+
  Term:int32, Position:int64
"""
TEXT: Final = _REQUEST_VOTE + _APPEND_ENTRIES + _INSTALL_SNAPSHOT
