"""Values of control records; the leading Version is the version of the message."""

TEXT = """
LeaderChangeMessage key=- valid=0-1 flex=0+
  Version:int16
  LeaderId:int32
  Voters:[]Voter{VoterId:int32, VoterDirectoryId:uuid[v1+]}
  GrantingVoters:[]Voter{VoterId:int32, VoterDirectoryId:uuid[v1+]}

SnapshotHeaderRecord key=- valid=0 flex=0+
  Version:int16
  LastContainedLogTimestamp:int64

SnapshotFooterRecord key=- valid=0 flex=0+
  Version:int16

KRaftVersionRecord key=- valid=0 flex=0+
  Version:int16
  KRaftVersion:int16

VotersRecord key=- valid=0 flex=0+
  Version:int16
  Voters:[]Voter{
    VoterId:int32, VoterDirectoryId:uuid
    Endpoints:[]Endpoint{Name:string, Host:string, Port:uint16}
    KRaftVersionFeature:KRaftVersionFeature{MinSupportedVersion:int16, MaxSupportedVersion:int16}
  }

EndTxnMarker key=- valid=0 flex=none
  Version:int16
  CoordinatorEpoch:int32
"""
