"""RPCs of every client, and of producers and consumers."""

TEXT = """
ApiVersionsRequest key=18 valid=0-5 flex=3+
  ClientSoftwareName:string[v3+]
  ClientSoftwareVersion:string[v3+]
  ClusterId:string[v5+ null@5+ def=null]
  NodeId:int32[v5+ def=-1]

ApiVersionsResponse key=18 valid=0-5 flex=3+
  ErrorCode:int16
  ApiKeys:[]ApiVersion{ApiKey:int16, MinVersion:int16, MaxVersion:int16}
  ThrottleTimeMs:int32[v1+]
  SupportedFeatures:[]SupportedFeatureKey[v3+ tag0@3+]{
    Name:string[v3+], MinVersion:int16[v3+], MaxVersion:int16[v3+]
  }
  FinalizedFeaturesEpoch:int64[v3+ tag1@3+ def=-1]
  FinalizedFeatures:[]FinalizedFeatureKey[v3+ tag2@3+]{
    Name:string[v3+], MaxVersionLevel:int16[v3+], MinVersionLevel:int16[v3+]
  }
  ZkMigrationReady:bool[v3+ tag3@3+]

MetadataRequest key=3 valid=0-13 flex=9+
  Topics:[]MetadataRequestTopic[null@1+]{TopicId:uuid[v10+], Name:string[null@10+]}
  AllowAutoTopicCreation:bool[v4+ def=true]
  IncludeClusterAuthorizedOperations:bool[v8-10]
  IncludeTopicAuthorizedOperations:bool[v8+]

MetadataResponse key=3 valid=0-13 flex=9+
  ThrottleTimeMs:int32[v3+]
  Brokers:[]MetadataResponseBroker{
    NodeId:int32, Host:string, Port:int32, Rack:string[v1+ null@1+ def=null]
  }
  ClusterId:string[v2+ null@2+ def=null]
  ControllerId:int32[v1+ def=-1]
  Topics:[]MetadataResponseTopic{
    ErrorCode:int16, Name:string[null@12+], TopicId:uuid[v10+], IsInternal:bool[v1+]
    Partitions:[]MetadataResponsePartition{
      ErrorCode:int16, PartitionIndex:int32, LeaderId:int32, LeaderEpoch:int32[v7+ def=-1]
      ReplicaNodes:[]int32, IsrNodes:[]int32, OfflineReplicas:[]int32[v5+]
    }
    TopicAuthorizedOperations:int32[v8+ def=-2147483648]
  }
  ClusterAuthorizedOperations:int32[v8-10 def=-2147483648]
  ErrorCode:int16[v13+]

ProduceRequest key=0 valid=3-13 flex=9+
  TransactionalId:string[v3+ null@3+ def=null]
  Acks:int16
  TimeoutMs:int32
  TopicData:[]TopicProduceData{
    Name:string[v0-12], TopicId:uuid[v13+]
    PartitionData:[]PartitionProduceData{Index:int32, Records:records[null@0+]}
  }

ProduceResponse key=0 valid=3-13 flex=9+
  Responses:[]TopicProduceResponse{
    Name:string[v0-12], TopicId:uuid[v13+]
    PartitionResponses:[]PartitionProduceResponse{
      Index:int32, ErrorCode:int16, BaseOffset:int64, LogAppendTimeMs:int64[v2+ def=-1]
      LogStartOffset:int64[v5+ def=-1]
      RecordErrors:[]BatchIndexAndErrorMessage[v8+]{
        BatchIndex:int32[v8+], BatchIndexErrorMessage:string[v8+ null@8+ def=null]
      }
      ErrorMessage:string[v8+ null@8+ def=null]
      CurrentLeader:LeaderIdAndEpoch[v10+ tag0@10+]{
        LeaderId:int32[v10+ def=-1], LeaderEpoch:int32[v10+ def=-1]
      }
    }
  }
  ThrottleTimeMs:int32[v1+]
  NodeEndpoints:[]NodeEndpoint[v10+ tag0@10+]{
    NodeId:int32[v10+], Host:string[v10+], Port:int32[v10+], Rack:string[v10+ null@10+ def=null]
  }

ListOffsetsRequest key=2 valid=1-11 flex=6+
  ReplicaId:int32
  IsolationLevel:int8[v2+]
  Topics:[]ListOffsetsTopic{
    Name:string
    Partitions:[]ListOffsetsPartition{
      PartitionIndex:int32, CurrentLeaderEpoch:int32[v4+ def=-1], Timestamp:int64
    }
  }
  TimeoutMs:int32[v10+]

ListOffsetsResponse key=2 valid=1-11 flex=6+
  ThrottleTimeMs:int32[v2+]
  Topics:[]ListOffsetsTopicResponse{
    Name:string
    Partitions:[]ListOffsetsPartitionResponse{
      PartitionIndex:int32, ErrorCode:int16, Timestamp:int64[v1+ def=-1]
      Offset:int64[v1+ def=-1], LeaderEpoch:int32[v4+ def=-1]
    }
  }

OffsetForLeaderEpochRequest key=23 valid=2-4 flex=4+
  ReplicaId:int32[v3+ def=-2]
  Topics:[]OffsetForLeaderTopic{
    Topic:string
    Partitions:[]OffsetForLeaderPartition{
      Partition:int32, CurrentLeaderEpoch:int32[v2+ def=-1], LeaderEpoch:int32
    }
  }

OffsetForLeaderEpochResponse key=23 valid=2-4 flex=4+
  ThrottleTimeMs:int32[v2+]
  Topics:[]OffsetForLeaderTopicResult{
    Topic:string
    Partitions:[]EpochEndOffset{
      ErrorCode:int16, Partition:int32, LeaderEpoch:int32[v1+ def=-1], EndOffset:int64[def=-1]
    }
  }

DeleteRecordsRequest key=21 valid=0-2 flex=2+
  Topics:[]DeleteRecordsTopic{
    Name:string
    Partitions:[]DeleteRecordsPartition{PartitionIndex:int32, Offset:int64}
  }
  TimeoutMs:int32

DeleteRecordsResponse key=21 valid=0-2 flex=2+
  ThrottleTimeMs:int32
  Topics:[]DeleteRecordsTopicResult{
    Name:string
    Partitions:[]DeleteRecordsPartitionResult{
      PartitionIndex:int32, LowWatermark:int64, ErrorCode:int16
    }
  }

InitProducerIdRequest key=22 valid=0-6 flex=2+
  TransactionalId:string[null@0+]
  TransactionTimeoutMs:int32
  ProducerId:int64[v3+ def=-1]
  ProducerEpoch:int16[v3+ def=-1]
  Enable2Pc:bool[v6+]
  KeepPreparedTxn:bool[v6+]

InitProducerIdResponse key=22 valid=0-6 flex=2+
  ThrottleTimeMs:int32
  ErrorCode:int16
  ProducerId:int64[def=-1]
  ProducerEpoch:int16
  OngoingTxnProducerId:int64[v6+ def=-1]
  OngoingTxnProducerEpoch:int16[v6+ def=-1]
"""
