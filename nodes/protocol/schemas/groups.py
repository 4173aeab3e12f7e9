"""RPCs of consumer groups."""

TEXT = """
FindCoordinatorRequest key=10 valid=0-6 flex=3+
  Key:string[v0-3]
  KeyType:int8[v1+]
  CoordinatorKeys:[]string[v4+]

FindCoordinatorResponse key=10 valid=0-6 flex=3+
  ThrottleTimeMs:int32[v1+]
  ErrorCode:int16[v0-3]
  ErrorMessage:string[v1-3 null@1-3]
  NodeId:int32[v0-3]
  Host:string[v0-3]
  Port:int32[v0-3]
  Coordinators:[]Coordinator[v4+]{
    Key:string[v4+], NodeId:int32[v4+], Host:string[v4+], Port:int32[v4+], ErrorCode:int16[v4+]
    ErrorMessage:string[v4+ null@4+]
  }

JoinGroupRequest key=11 valid=0-9 flex=6+
  GroupId:string
  SessionTimeoutMs:int32
  RebalanceTimeoutMs:int32[v1+ def=-1]
  MemberId:string
  GroupInstanceId:string[v5+ null@5+ def=null]
  ProtocolType:string
  Protocols:[]JoinGroupRequestProtocol{Name:string, Metadata:bytes}
  Reason:string[v8+ null@8+ def=null]

JoinGroupResponse key=11 valid=0-9 flex=6+
  ThrottleTimeMs:int32[v2+]
  ErrorCode:int16
  GenerationId:int32[def=-1]
  ProtocolType:string[v7+ null@7+ def=null]
  ProtocolName:string[null@7+]
  Leader:string
  SkipAssignment:bool[v9+]
  MemberId:string
  Members:[]JoinGroupResponseMember{
    MemberId:string, GroupInstanceId:string[v5+ null@5+ def=null], Metadata:bytes
  }

SyncGroupRequest key=14 valid=0-5 flex=4+
  GroupId:string
  GenerationId:int32
  MemberId:string
  GroupInstanceId:string[v3+ null@3+ def=null]
  ProtocolType:string[v5+ null@5+ def=null]
  ProtocolName:string[v5+ null@5+ def=null]
  Assignments:[]SyncGroupRequestAssignment{MemberId:string, Assignment:bytes}

SyncGroupResponse key=14 valid=0-5 flex=4+
  ThrottleTimeMs:int32[v1+]
  ErrorCode:int16
  ProtocolType:string[v5+ null@5+ def=null]
  ProtocolName:string[v5+ null@5+ def=null]
  Assignment:bytes

HeartbeatRequest key=12 valid=0-4 flex=4+
  GroupId:string
  GenerationId:int32
  MemberId:string
  GroupInstanceId:string[v3+ null@3+ def=null]

HeartbeatResponse key=12 valid=0-4 flex=4+
  ThrottleTimeMs:int32[v1+]
  ErrorCode:int16

LeaveGroupRequest key=13 valid=0-5 flex=4+
  GroupId:string
  MemberId:string[v0-2]
  Members:[]MemberIdentity[v3+]{
    MemberId:string[v3+], GroupInstanceId:string[v3+ null@3+ def=null]
    Reason:string[v5+ null@5+ def=null]
  }

LeaveGroupResponse key=13 valid=0-5 flex=4+
  ThrottleTimeMs:int32[v1+]
  ErrorCode:int16
  Members:[]MemberResponse[v3+]{
    MemberId:string[v3+], GroupInstanceId:string[v3+ null@3+], ErrorCode:int16[v3+]
  }

OffsetCommitRequest key=8 valid=2-10 flex=8+
  GroupId:string
  GenerationIdOrMemberEpoch:int32[v1+ def=-1]
  MemberId:string[v1+]
  GroupInstanceId:string[v7+ null@7+ def=null]
  RetentionTimeMs:int64[v2-4 def=-1]
  Topics:[]OffsetCommitRequestTopic{
    Name:string[v0-9], TopicId:uuid[v10+]
    Partitions:[]OffsetCommitRequestPartition{
      PartitionIndex:int32, CommittedOffset:int64, CommittedLeaderEpoch:int32[v6+ def=-1]
      CommittedMetadata:string[null@0+]
    }
  }

OffsetCommitResponse key=8 valid=2-10 flex=8+
  ThrottleTimeMs:int32[v3+]
  Topics:[]OffsetCommitResponseTopic{
    Name:string[v0-9], TopicId:uuid[v10+]
    Partitions:[]OffsetCommitResponsePartition{PartitionIndex:int32, ErrorCode:int16}
  }

OffsetFetchRequest key=9 valid=1-10 flex=6+
  GroupId:string[v0-7]
  Topics:[]OffsetFetchRequestTopic[v0-7 null@2-7]{
    Name:string[v0-7], PartitionIndexes:[]int32[v0-7]
  }
  Groups:[]OffsetFetchRequestGroup[v8+]{
    GroupId:string[v8+], MemberId:string[v9+ null@9+ def=null], MemberEpoch:int32[v9+ def=-1]
    Topics:[]OffsetFetchRequestTopics[v8+ null@8+]{
      Name:string[v8-9], TopicId:uuid[v10+], PartitionIndexes:[]int32[v8+]
    }
  }
  RequireStable:bool[v7+]

OffsetFetchResponse key=9 valid=1-10 flex=6+
  ThrottleTimeMs:int32[v3+]
  Topics:[]OffsetFetchResponseTopic[v0-7]{
    Name:string[v0-7]
    Partitions:[]OffsetFetchResponsePartition[v0-7]{
      PartitionIndex:int32[v0-7], CommittedOffset:int64[v0-7]
      CommittedLeaderEpoch:int32[v5-7 def=-1], Metadata:string[v0-7 null@0-7]
      ErrorCode:int16[v0-7]
    }
  }
  ErrorCode:int16[v2-7]
  Groups:[]OffsetFetchResponseGroup[v8+]{
    GroupId:string[v8+]
    Topics:[]OffsetFetchResponseTopics[v8+]{
      Name:string[v8-9], TopicId:uuid[v10+]
      Partitions:[]OffsetFetchResponsePartitions[v8+]{
        PartitionIndex:int32[v8+], CommittedOffset:int64[v8+]
        CommittedLeaderEpoch:int32[v8+ def=-1], Metadata:string[v8+ null@8+]
        ErrorCode:int16[v8+]
      }
    }
    ErrorCode:int16[v8+]
  }
"""
