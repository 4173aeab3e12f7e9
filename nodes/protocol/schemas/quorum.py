"""The RPCs of the quorum: votes, epochs, fetching, snapshots, voter changes."""

TEXT = """
VoteRequest key=52 valid=0-2 flex=0+
  ClusterId:string[null@0+ def=null]
  VoterId:int32[v1+ def=-1]
  Topics:[]TopicData{
    TopicName:string
    Partitions:[]PartitionData{
      PartitionIndex:int32, ReplicaEpoch:int32, ReplicaId:int32, ReplicaDirectoryId:uuid[v1+]
      VoterDirectoryId:uuid[v1+], LastOffsetEpoch:int32, LastOffset:int64, PreVote:bool[v2+ strict]
    }
  }

VoteResponse key=52 valid=0-2 flex=0+
  ErrorCode:int16
  Topics:[]TopicData{
    TopicName:string
    Partitions:[]PartitionData{
      PartitionIndex:int32, ErrorCode:int16, LeaderId:int32, LeaderEpoch:int32, VoteGranted:bool
    }
  }
  NodeEndpoints:[]NodeEndpoint[v1+ tag0@1+]{NodeId:int32[v1+], Host:string[v1+], Port:uint16[v1+]}

BeginQuorumEpochRequest key=53 valid=0-1 flex=1+
  ClusterId:string[null@0+ def=null]
  VoterId:int32[v1+ def=-1]
  Topics:[]TopicData{
    TopicName:string
    Partitions:[]PartitionData{
      PartitionIndex:int32, VoterDirectoryId:uuid[v1+], LeaderId:int32, LeaderEpoch:int32
    }
  }
  LeaderEndpoints:[]LeaderEndpoint[v1+]{Name:string[v1+], Host:string[v1+], Port:uint16[v1+]}

BeginQuorumEpochResponse key=53 valid=0-1 flex=1+
  ErrorCode:int16
  Topics:[]TopicData{
    TopicName:string
    Partitions:[]PartitionData{
      PartitionIndex:int32, ErrorCode:int16, LeaderId:int32, LeaderEpoch:int32
    }
  }
  NodeEndpoints:[]NodeEndpoint[v1+ tag0@1+]{NodeId:int32[v1+], Host:string[v1+], Port:uint16[v1+]}

EndQuorumEpochRequest key=54 valid=0-1 flex=1+
  ClusterId:string[null@0+ def=null]
  Topics:[]TopicData{
    TopicName:string
    Partitions:[]PartitionData{
      PartitionIndex:int32, LeaderId:int32, LeaderEpoch:int32, PreferredSuccessors:[]int32[v0]
      PreferredCandidates:[]ReplicaInfo[v1+]{
        CandidateId:int32[v1+], CandidateDirectoryId:uuid[v1+]
      }
    }
  }
  LeaderEndpoints:[]LeaderEndpoint[v1+]{Name:string[v1+], Host:string[v1+], Port:uint16[v1+]}

EndQuorumEpochResponse key=54 valid=0-1 flex=1+
  ErrorCode:int16
  Topics:[]TopicData{
    TopicName:string
    Partitions:[]PartitionData{
      PartitionIndex:int32, ErrorCode:int16, LeaderId:int32, LeaderEpoch:int32
    }
  }
  NodeEndpoints:[]NodeEndpoint[v1+ tag0@1+]{NodeId:int32[v1+], Host:string[v1+], Port:uint16[v1+]}

FetchRequest key=1 valid=4-18 flex=12+
  ClusterId:string[v12+ tag0@12+ null@12+ def=null]
  ReplicaId:int32[v0-14 def=-1]
  ReplicaState:ReplicaState[v15+ tag1@15+]{
    ReplicaId:int32[v15+ def=-1], ReplicaEpoch:int64[v15+ def=-1]
  }
  MaxWaitMs:int32
  MinBytes:int32
  MaxBytes:int32[v3+ def=0x7fffffff]
  IsolationLevel:int8[v4+]
  SessionId:int32[v7+]
  SessionEpoch:int32[v7+ def=-1]
  Topics:[]FetchTopic{
    Topic:string[v0-12], TopicId:uuid[v13+]
    Partitions:[]FetchPartition{
      Partition:int32, CurrentLeaderEpoch:int32[v9+ def=-1], FetchOffset:int64
      LastFetchedEpoch:int32[v12+ def=-1], LogStartOffset:int64[v5+ def=-1]
      PartitionMaxBytes:int32, ReplicaDirectoryId:uuid[v17+ tag0@17+]
      HighWatermark:int64[v18+ tag1@18+ def=9223372036854775807]
    }
  }
  ForgottenTopicsData:[]ForgottenTopic[v7+]{
    Topic:string[v7-12], TopicId:uuid[v13+], Partitions:[]int32[v7+]
  }
  RackId:string[v11+]

FetchResponse key=1 valid=4-18 flex=12+
  ThrottleTimeMs:int32[v1+]
  ErrorCode:int16[v7+]
  SessionId:int32[v7+]
  Responses:[]FetchableTopicResponse{
    Topic:string[v0-12], TopicId:uuid[v13+]
    Partitions:[]PartitionData{
      PartitionIndex:int32, ErrorCode:int16, HighWatermark:int64
      LastStableOffset:int64[v4+ def=-1], LogStartOffset:int64[v5+ def=-1]
      DivergingEpoch:EpochEndOffset[v12+ tag0@12+]{
        Epoch:int32[v12+ def=-1], EndOffset:int64[v12+ def=-1]
      }
      CurrentLeader:LeaderIdAndEpoch[v12+ tag1@12+]{
        LeaderId:int32[v12+ def=-1], LeaderEpoch:int32[v12+ def=-1]
      }
      SnapshotId:SnapshotId[v12+ tag2@12+]{EndOffset:int64[def=-1], Epoch:int32[def=-1]}
      AbortedTransactions:[]AbortedTransaction[v4+ null@4+]{
        ProducerId:int64[v4+], FirstOffset:int64[v4+]
      }
      PreferredReadReplica:int32[v11+ def=-1], Records:records[null@0+]
    }
  }
  NodeEndpoints:[]NodeEndpoint[v16+ tag0@16+]{
    NodeId:int32[v16+], Host:string[v16+], Port:int32[v16+], Rack:string[v16+ null@16+ def=null]
  }

FetchSnapshotRequest key=59 valid=0-1 flex=0+
  ClusterId:string[tag0@0+ null@0+ def=null]
  ReplicaId:int32[def=-1]
  MaxBytes:int32[def=0x7fffffff]
  Topics:[]TopicSnapshot{
    Name:string
    Partitions:[]PartitionSnapshot{
      Partition:int32, CurrentLeaderEpoch:int32
      SnapshotId:SnapshotId{EndOffset:int64, Epoch:int32}, Position:int64
      ReplicaDirectoryId:uuid[v1+ tag0@1+]
    }
  }

FetchSnapshotResponse key=59 valid=0-1 flex=0+
  ThrottleTimeMs:int32
  ErrorCode:int16
  Topics:[]TopicSnapshot{
    Name:string
    Partitions:[]PartitionSnapshot{
      Index:int32, ErrorCode:int16, SnapshotId:SnapshotId{EndOffset:int64, Epoch:int32}
      CurrentLeader:LeaderIdAndEpoch[tag0@0+]{LeaderId:int32, LeaderEpoch:int32}, Size:int64
      Position:int64, UnalignedRecords:records
    }
  }
  NodeEndpoints:[]NodeEndpoint[v1+ tag0@1+]{NodeId:int32[v1+], Host:string[v1+], Port:uint16[v1+]}

DescribeQuorumRequest key=55 valid=0-2 flex=0+
  Topics:[]TopicData{TopicName:string, Partitions:[]PartitionData{PartitionIndex:int32}}

DescribeQuorumResponse key=55 valid=0-2 flex=0+
  ErrorCode:int16
  ErrorMessage:string[v2+ null@2+]
  Topics:[]TopicData{
    TopicName:string
    Partitions:[]PartitionData{
      PartitionIndex:int32, ErrorCode:int16, ErrorMessage:string[v2+ null@2+], LeaderId:int32
      LeaderEpoch:int32, HighWatermark:int64
      CurrentVoters:[]ReplicaState{
        ReplicaId:int32, ReplicaDirectoryId:uuid[v2+], LogEndOffset:int64
        LastFetchTimestamp:int64[v1+ def=-1], LastCaughtUpTimestamp:int64[v1+ def=-1]
      }
      Observers:[]ReplicaState{
        ReplicaId:int32, ReplicaDirectoryId:uuid[v2+], LogEndOffset:int64
        LastFetchTimestamp:int64[v1+ def=-1], LastCaughtUpTimestamp:int64[v1+ def=-1]
      }
    }
  }
  Nodes:[]Node[v2+]{
    NodeId:int32[v2+]
    Listeners:[]Listener[v2+]{Name:string[v2+], Host:string[v2+], Port:uint16[v2+]}
  }

AddRaftVoterRequest key=80 valid=0-1 flex=0+
  ClusterId:string[null@0+]
  TimeoutMs:int32
  VoterId:int32
  VoterDirectoryId:uuid
  Listeners:[]Listener{Name:string, Host:string, Port:uint16}
  AckWhenCommitted:bool[v1+ def=true]

AddRaftVoterResponse key=80 valid=0-1 flex=0+
  ThrottleTimeMs:int32
  ErrorCode:int16
  ErrorMessage:string[null@0+]

RemoveRaftVoterRequest key=81 valid=0 flex=0+
  ClusterId:string[null@0+]
  VoterId:int32
  VoterDirectoryId:uuid

RemoveRaftVoterResponse key=81 valid=0 flex=0+
  ThrottleTimeMs:int32
  ErrorCode:int16
  ErrorMessage:string[null@0+]

UpdateRaftVoterRequest key=82 valid=0 flex=0+
  ClusterId:string[null@0+]
  CurrentLeaderEpoch:int32
  VoterId:int32
  VoterDirectoryId:uuid
  Listeners:[]Listener{Name:string, Host:string, Port:uint16}
  KRaftVersionFeature:KRaftVersionFeature{MinSupportedVersion:int16, MaxSupportedVersion:int16}

UpdateRaftVoterResponse key=82 valid=0 flex=0+
  ThrottleTimeMs:int32
  ErrorCode:int16
  CurrentLeader:CurrentLeader[tag0@0+]{
    LeaderId:int32[def=-1], LeaderEpoch:int32[def=-1], Host:string, Port:int32
  }
"""
