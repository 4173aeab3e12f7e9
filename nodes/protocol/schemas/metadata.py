"""Records of the metadata log; the key is the record type."""

TEXT = """
RegisterBrokerRecord key=0 valid=0-4 flex=0+
  BrokerId:int32
  IsMigratingZkBroker:bool[v2+]
  IncarnationId:uuid
  BrokerEpoch:int64
  EndPoints:[]BrokerEndpoint{Name:string, Host:string, Port:uint16, SecurityProtocol:int16}
  Features:[]BrokerFeature{Name:string, MinSupportedVersion:int16, MaxSupportedVersion:int16}
  Rack:string[null@0+]
  Fenced:bool[def=true]
  InControlledShutdown:bool[v1+]
  LogDirs:[]uuid[v3+ tag0@3+]
  CordonedLogDirs:[]uuid[v4+ tag1@4+ null@4+ def=null]

UnregisterBrokerRecord key=1 valid=0 flex=0+
  BrokerId:int32
  BrokerEpoch:int64

TopicRecord key=2 valid=0 flex=0+
  Name:string
  TopicId:uuid

PartitionRecord key=3 valid=0-2 flex=0+
  PartitionId:int32[def=-1]
  TopicId:uuid
  Replicas:[]int32
  Isr:[]int32
  RemovingReplicas:[]int32
  AddingReplicas:[]int32
  Leader:int32[def=-1]
  LeaderRecoveryState:int8[tag0@0+]
  LeaderEpoch:int32[def=-1]
  PartitionEpoch:int32[def=-1]
  Directories:[]uuid[v1+]
  EligibleLeaderReplicas:[]int32[v2+ tag1@2+ null@2+ def=null]
  LastKnownElr:[]int32[v2+ tag2@2+ null@2+ def=null]

ConfigRecord key=4 valid=0 flex=0+
  ResourceType:int8
  ResourceName:string
  Name:string
  Value:string[null@0+]

PartitionChangeRecord key=5 valid=0-2 flex=0+
  PartitionId:int32[def=-1]
  TopicId:uuid
  Isr:[]int32[tag0@0+ null@0+ def=null]
  Leader:int32[tag1@0+ def=-2]
  Replicas:[]int32[tag2@0+ null@0+ def=null]
  RemovingReplicas:[]int32[tag3@0+ null@0+ def=null]
  AddingReplicas:[]int32[tag4@0+ null@0+ def=null]
  LeaderRecoveryState:int8[tag5@0+ def=-1]
  Directories:[]uuid[v1+ tag8@1+ null@1+ def=null]
  EligibleLeaderReplicas:[]int32[v2+ tag6@2+ null@2+ def=null]
  LastKnownElr:[]int32[v2+ tag7@2+ null@2+ def=null]

FenceBrokerRecord key=7 valid=0 flex=0+
  Id:int32
  Epoch:int64

UnfenceBrokerRecord key=8 valid=0 flex=0+
  Id:int32
  Epoch:int64

RemoveTopicRecord key=9 valid=0 flex=0+
  TopicId:uuid

DelegationTokenRecord key=10 valid=0 flex=0+
  Owner:string
  Requester:string
  Renewers:[]string
  IssueTimestamp:int64
  MaxTimestamp:int64
  ExpirationTimestamp:int64
  TokenId:string

UserScramCredentialRecord key=11 valid=0 flex=0+
  Name:string
  Mechanism:int8
  Salt:bytes
  StoredKey:bytes
  ServerKey:bytes
  Iterations:int32

FeatureLevelRecord key=12 valid=0 flex=0+
  Name:string
  FeatureLevel:int16

ClientQuotaRecord key=14 valid=0 flex=0+
  Entity:[]EntityData{EntityType:string, EntityName:string[null@0+]}
  Key:string
  Value:float64
  Remove:bool

ProducerIdsRecord key=15 valid=0 flex=0+
  BrokerId:int32
  BrokerEpoch:int64[def=-1]
  NextProducerId:int64

BrokerRegistrationChangeRecord key=17 valid=0-3 flex=0+
  BrokerId:int32
  BrokerEpoch:int64
  Fenced:int8[tag0@0+]
  InControlledShutdown:int8[v1+ tag1@1+]
  LogDirs:[]uuid[v2+ tag2@2+]
  CordonedLogDirs:[]uuid[v3+ tag3@3+ null@3+ def=null]

AccessControlEntryRecord key=18 valid=0 flex=0+
  Id:uuid
  ResourceType:int8
  ResourceName:string
  PatternType:int8
  Principal:string
  Host:string
  Operation:int8
  PermissionType:int8

RemoveAccessControlEntryRecord key=19 valid=0 flex=0+
  Id:uuid

NoOpRecord key=20 valid=0 flex=0+

ZkMigrationStateRecord key=21 valid=0 flex=0+
  ZkMigrationState:int8

RemoveUserScramCredentialRecord key=22 valid=0 flex=0+
  Name:string
  Mechanism:int8

BeginTransactionRecord key=23 valid=0 flex=0+
  Name:string[tag0@0+ null@0+ def=null]

EndTransactionRecord key=24 valid=0 flex=0+

AbortTransactionRecord key=25 valid=0 flex=0+
  Reason:string[tag0@0+ null@0+ def=null]

RemoveDelegationTokenRecord key=26 valid=0 flex=0+
  TokenId:string

RegisterControllerRecord key=27 valid=0 flex=0+
  ControllerId:int32
  IncarnationId:uuid
  ZkMigrationReady:bool
  EndPoints:[]ControllerEndpoint{Name:string, Host:string, Port:uint16, SecurityProtocol:int16}
  Features:[]ControllerFeature{Name:string, MinSupportedVersion:int16, MaxSupportedVersion:int16}

ClearElrRecord key=28 valid=0 flex=0+
  TopicName:string

UnregisterControllerRecord key=29 valid=0 flex=0+
  ControllerId:int32
"""
