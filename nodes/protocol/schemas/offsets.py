"""Records of ``__consumer_offsets``.

Keys and values each begin with an int16 version that is not part of the message; see
:mod:`nodes.protocol.versioned`. A key's version also determines its kind: 0 and 1 an offset commit,
2 a group.
"""

TEXT = """
LegacyOffsetCommitKey key=0 valid=0 flex=none
  Group:string
  Topic:string
  Partition:int32

OffsetCommitKey key=1 valid=0 flex=none
  Group:string
  Topic:string
  Partition:int32

OffsetCommitValue key=1 valid=0-4 flex=4+
  Offset:int64
  LeaderEpoch:int32[v3+ def=-1]
  Metadata:string
  CommitTimestamp:int64
  ExpireTimestamp:int64[v1 def=-1]
  TopicId:uuid[v4+ tag0@4+]

GroupMetadataKey key=2 valid=0 flex=none
  Group:string

GroupMetadataValue key=2 valid=0-4 flex=4+
  ProtocolType:string
  Generation:int32
  Protocol:string[null@0+]
  Leader:string[null@0+]
  CurrentStateTimestamp:int64[v2+ def=-1]
  Members:[]MemberMetadata{
    MemberId:string, GroupInstanceId:string[v3+ null@3+ def=null]
    ClientId:string, ClientHost:string
    RebalanceTimeout:int32[v1+ def=-1], SessionTimeout:int32
    Subscription:bytes, Assignment:bytes
  }
"""
