"""RPCs between brokers and the active controller."""

TEXT = """
BrokerRegistrationRequest key=62 valid=0-4 flex=0+
  BrokerId:int32
  ClusterId:string
  IncarnationId:uuid
  Listeners:[]Listener{Name:string, Host:string, Port:uint16, SecurityProtocol:int16}
  Features:[]Feature{Name:string, MinSupportedVersion:int16, MaxSupportedVersion:int16}
  Rack:string[null@0+]
  IsMigratingZkBroker:bool[v1+]
  LogDirs:[]uuid[v2+]
  PreviousBrokerEpoch:int64[v3+ def=-1]

BrokerRegistrationResponse key=62 valid=0-4 flex=0+
  ThrottleTimeMs:int32
  ErrorCode:int16
  BrokerEpoch:int64[def=-1]

BrokerHeartbeatRequest key=63 valid=0-2 flex=0+
  BrokerId:int32
  BrokerEpoch:int64[def=-1]
  CurrentMetadataOffset:int64
  WantFence:bool
  WantShutDown:bool
  OfflineLogDirs:[]uuid[v1+ tag0@1+]
  CordonedLogDirs:[]uuid[v2+ tag1@2+ null@2+ def=null]

BrokerHeartbeatResponse key=63 valid=0-2 flex=0+
  ThrottleTimeMs:int32
  ErrorCode:int16
  IsCaughtUp:bool
  IsFenced:bool[def=true]
  ShouldShutDown:bool

ControllerRegistrationRequest key=70 valid=0 flex=0+
  ControllerId:int32
  IncarnationId:uuid
  ZkMigrationReady:bool
  Listeners:[]Listener{Name:string, Host:string, Port:uint16, SecurityProtocol:int16}
  Features:[]Feature{Name:string, MinSupportedVersion:int16, MaxSupportedVersion:int16}

ControllerRegistrationResponse key=70 valid=0 flex=0+
  ThrottleTimeMs:int32
  ErrorCode:int16
  ErrorMessage:string[null@0+]

UnregisterBrokerRequest key=64 valid=0 flex=0+
  BrokerId:int32

UnregisterBrokerResponse key=64 valid=0 flex=0+
  ThrottleTimeMs:int32
  ErrorCode:int16
  ErrorMessage:string[null@0+]

UnregisterControllerRequest key=94 valid=0 flex=0+
  ControllerId:int32

UnregisterControllerResponse key=94 valid=0 flex=0+
  ThrottleTimeMs:int32
  ErrorCode:int16
  ErrorMessage:string[null@0+]

AlterPartitionRequest key=56 valid=2-3 flex=0+
  BrokerId:int32
  BrokerEpoch:int64[def=-1]
  Topics:[]TopicData{
    TopicId:uuid[v2+]
    Partitions:[]PartitionData{
      PartitionIndex:int32, LeaderEpoch:int32, NewIsr:[]int32[v0-2]
      NewIsrWithEpochs:[]BrokerState[v3+]{BrokerId:int32[v3+], BrokerEpoch:int64[v3+ def=-1]}
      LeaderRecoveryState:int8[v1+], PartitionEpoch:int32
    }
  }

AlterPartitionResponse key=56 valid=2-3 flex=0+
  ThrottleTimeMs:int32
  ErrorCode:int16
  Topics:[]TopicData{
    TopicId:uuid[v2+]
    Partitions:[]PartitionData{
      PartitionIndex:int32, ErrorCode:int16, LeaderId:int32, LeaderEpoch:int32, Isr:[]int32
      LeaderRecoveryState:int8[v1+], PartitionEpoch:int32
    }
  }

AllocateProducerIdsRequest key=67 valid=0 flex=0+
  BrokerId:int32
  BrokerEpoch:int64[def=-1]

AllocateProducerIdsResponse key=67 valid=0 flex=0+
  ThrottleTimeMs:int32
  ErrorCode:int16
  ProducerIdStart:int64
  ProducerIdLen:int32

AssignReplicasToDirsRequest key=73 valid=0 flex=0+
  BrokerId:int32
  BrokerEpoch:int64[def=-1]
  Directories:[]DirectoryData{
    Id:uuid, Topics:[]TopicData{TopicId:uuid, Partitions:[]PartitionData{PartitionIndex:int32}}
  }

AssignReplicasToDirsResponse key=73 valid=0 flex=0+
  ThrottleTimeMs:int32
  ErrorCode:int16
  Directories:[]DirectoryData{
    Id:uuid
    Topics:[]TopicData{
      TopicId:uuid, Partitions:[]PartitionData{PartitionIndex:int32, ErrorCode:int16}
    }
  }

EnvelopeRequest key=58 valid=0 flex=0+
  RequestData:bytes
  RequestPrincipal:bytes[null@0+]
  ClientHostAddress:bytes

EnvelopeResponse key=58 valid=0 flex=0+
  ResponseData:bytes[null@0+ def=null]
  ErrorCode:int16

UpdateFeaturesRequest key=57 valid=0-2 flex=0+
  TimeoutMs:int32[def=60000]
  FeatureUpdates:[]FeatureUpdateKey{
    Feature:string, MaxVersionLevel:int16, AllowDowngrade:bool[v0], UpgradeType:int8[v1+ def=1]
  }
  ValidateOnly:bool[v1+]

UpdateFeaturesResponse key=57 valid=0-2 flex=0+
  ThrottleTimeMs:int32
  ErrorCode:int16
  ErrorMessage:string[null@0+]
  Results:[]UpdatableFeatureResult[v0-1]{
    Feature:string, ErrorCode:int16, ErrorMessage:string[null@0+]
  }

DefaultPrincipalData key=- valid=0 flex=0+
  Type:string
  Name:string
  TokenAuthenticated:bool
"""
