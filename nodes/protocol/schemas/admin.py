"""RPCs of admin clients: topics, configs, partitions, cluster description."""

TEXT = """
CreateTopicsRequest key=19 valid=2-7 flex=5+
  Topics:[]CreatableTopic{
    Name:string, NumPartitions:int32, ReplicationFactor:int16
    Assignments:[]CreatableReplicaAssignment{PartitionIndex:int32, BrokerIds:[]int32}
    Configs:[]CreatableTopicConfig{Name:string, Value:string[null@0+]}
  }
  TimeoutMs:int32[def=60000]
  ValidateOnly:bool[v1+]

CreateTopicsResponse key=19 valid=2-7 flex=5+
  ThrottleTimeMs:int32[v2+]
  Topics:[]CreatableTopicResult{
    Name:string, TopicId:uuid[v7+], ErrorCode:int16, ErrorMessage:string[v1+ null@0+]
    TopicConfigErrorCode:int16[v5+ tag0@5+], NumPartitions:int32[v5+ def=-1]
    ReplicationFactor:int16[v5+ def=-1]
    Configs:[]CreatableTopicConfigs[v5+ null@5+]{
      Name:string[v5+], Value:string[v5+ null@5+], ReadOnly:bool[v5+]
      ConfigSource:int8[v5+ def=-1], IsSensitive:bool[v5+]
    }
  }

DeleteTopicsRequest key=20 valid=1-6 flex=4+
  Topics:[]DeleteTopicState[v6+]{Name:string[v6+ null@6+ def=null], TopicId:uuid[v6+]}
  TopicNames:[]string[v0-5]
  TimeoutMs:int32

DeleteTopicsResponse key=20 valid=1-6 flex=4+
  ThrottleTimeMs:int32[v1+]
  Responses:[]DeletableTopicResult{
    Name:string[null@6+], TopicId:uuid[v6+], ErrorCode:int16
    ErrorMessage:string[v5+ null@5+ def=null]
  }

CreatePartitionsRequest key=37 valid=0-3 flex=2+
  Topics:[]CreatePartitionsTopic{
    Name:string, Count:int32
    Assignments:[]CreatePartitionsAssignment[null@0+]{BrokerIds:[]int32}
  }
  TimeoutMs:int32
  ValidateOnly:bool

CreatePartitionsResponse key=37 valid=0-3 flex=2+
  ThrottleTimeMs:int32
  Results:[]CreatePartitionsTopicResult{
    Name:string, ErrorCode:int16, ErrorMessage:string[null@0+ def=null]
  }

ElectLeadersRequest key=43 valid=0-2 flex=2+
  ElectionType:int8[v1+]
  TopicPartitions:[]TopicPartitions[null@0+]{Topic:string, Partitions:[]int32}
  TimeoutMs:int32[def=60000]

ElectLeadersResponse key=43 valid=0-2 flex=2+
  ThrottleTimeMs:int32
  ErrorCode:int16[v1+]
  ReplicaElectionResults:[]ReplicaElectionResult{
    Topic:string
    PartitionResult:[]PartitionResult{
      PartitionId:int32, ErrorCode:int16, ErrorMessage:string[null@0+]
    }
  }

AlterPartitionReassignmentsRequest key=45 valid=0-1 flex=0+
  TimeoutMs:int32[def=60000]
  AllowReplicationFactorChange:bool[v1+ def=true]
  Topics:[]ReassignableTopic{
    Name:string
    Partitions:[]ReassignablePartition{PartitionIndex:int32, Replicas:[]int32[null@0+ def=null]}
  }

AlterPartitionReassignmentsResponse key=45 valid=0-1 flex=0+
  ThrottleTimeMs:int32
  AllowReplicationFactorChange:bool[v1+ def=true]
  ErrorCode:int16
  ErrorMessage:string[null@0+]
  Responses:[]ReassignableTopicResponse{
    Name:string
    Partitions:[]ReassignablePartitionResponse{
      PartitionIndex:int32, ErrorCode:int16, ErrorMessage:string[null@0+]
    }
  }

ListPartitionReassignmentsRequest key=46 valid=0 flex=0+
  TimeoutMs:int32[def=60000]
  Topics:[]ListPartitionReassignmentsTopics[null@0+ def=null]{
    Name:string, PartitionIndexes:[]int32
  }

ListPartitionReassignmentsResponse key=46 valid=0 flex=0+
  ThrottleTimeMs:int32
  ErrorCode:int16
  ErrorMessage:string[null@0+]
  Topics:[]OngoingTopicReassignment{
    Name:string
    Partitions:[]OngoingPartitionReassignment{
      PartitionIndex:int32, Replicas:[]int32, AddingReplicas:[]int32, RemovingReplicas:[]int32
    }
  }

AlterConfigsRequest key=33 valid=0-2 flex=2+
  Resources:[]AlterConfigsResource{
    ResourceType:int8, ResourceName:string
    Configs:[]AlterableConfig{Name:string, Value:string[null@0+]}
  }
  ValidateOnly:bool

AlterConfigsResponse key=33 valid=0-2 flex=2+
  ThrottleTimeMs:int32
  Responses:[]AlterConfigsResourceResponse{
    ErrorCode:int16, ErrorMessage:string[null@0+], ResourceType:int8, ResourceName:string
  }

IncrementalAlterConfigsRequest key=44 valid=0-1 flex=1+
  Resources:[]AlterConfigsResource{
    ResourceType:int8, ResourceName:string
    Configs:[]AlterableConfig{Name:string, ConfigOperation:int8, Value:string[null@0+]}
  }
  ValidateOnly:bool

IncrementalAlterConfigsResponse key=44 valid=0-1 flex=1+
  ThrottleTimeMs:int32
  Responses:[]AlterConfigsResourceResponse{
    ErrorCode:int16, ErrorMessage:string[null@0+], ResourceType:int8, ResourceName:string
  }

DescribeConfigsRequest key=32 valid=1-4 flex=4+
  Resources:[]DescribeConfigsResource{
    ResourceType:int8, ResourceName:string, ConfigurationKeys:[]string[null@0+]
  }
  IncludeSynonyms:bool[v1+]
  IncludeDocumentation:bool[v3+]

DescribeConfigsResponse key=32 valid=1-4 flex=4+
  ThrottleTimeMs:int32
  Results:[]DescribeConfigsResult{
    ErrorCode:int16, ErrorMessage:string[null@0+], ResourceType:int8, ResourceName:string
    Configs:[]DescribeConfigsResourceResult{
      Name:string, Value:string[null@0+], ReadOnly:bool, ConfigSource:int8[v1+ def=-1]
      IsSensitive:bool
      Synonyms:[]DescribeConfigsSynonym[v1+]{
        Name:string[v1+], Value:string[v1+ null@0+], Source:int8[v1+]
      }
      ConfigType:int8[v3+], Documentation:string[v3+ null@0+]
    }
  }

DescribeClusterRequest key=60 valid=0-2 flex=0+
  IncludeClusterAuthorizedOperations:bool
  EndpointType:int8[v1+ def=1]
  IncludeFencedBrokers:bool[v2+]

DescribeClusterResponse key=60 valid=0-2 flex=0+
  ThrottleTimeMs:int32
  ErrorCode:int16
  ErrorMessage:string[null@0+ def=null]
  EndpointType:int8[v1+ def=1]
  ClusterId:string
  ControllerId:int32[def=-1]
  Brokers:[]DescribeClusterBroker{
    BrokerId:int32, Host:string, Port:int32, Rack:string[null@0+ def=null], IsFenced:bool[v2+]
  }
  ClusterAuthorizedOperations:int32[def=-2147483648]

DescribeTopicPartitionsRequest key=75 valid=0 flex=0+
  Topics:[]TopicRequest{Name:string}
  ResponsePartitionLimit:int32[def=2000]
  Cursor:Cursor[null@0+ def=null]{TopicName:string, PartitionIndex:int32}

DescribeTopicPartitionsResponse key=75 valid=0 flex=0+
  ThrottleTimeMs:int32
  Topics:[]DescribeTopicPartitionsResponseTopic{
    ErrorCode:int16, Name:string[null@0+], TopicId:uuid, IsInternal:bool
    Partitions:[]DescribeTopicPartitionsResponsePartition{
      ErrorCode:int16, PartitionIndex:int32, LeaderId:int32, LeaderEpoch:int32[def=-1]
      ReplicaNodes:[]int32, IsrNodes:[]int32, EligibleLeaderReplicas:[]int32[null@0+ def=null]
      LastKnownElr:[]int32[null@0+ def=null], OfflineReplicas:[]int32
    }
    TopicAuthorizedOperations:int32[def=-2147483648]
  }
  NextCursor:Cursor[null@0+ def=null]{TopicName:string, PartitionIndex:int32}

DescribeLogDirsRequest key=35 valid=1-5 flex=2+
  Topics:[]DescribableLogDirTopic[null@0+]{Topic:string, Partitions:[]int32}

DescribeLogDirsResponse key=35 valid=1-5 flex=2+
  ThrottleTimeMs:int32
  ErrorCode:int16[v3+]
  Results:[]DescribeLogDirsResult{
    ErrorCode:int16, LogDir:string
    Topics:[]DescribeLogDirsTopic{
      Name:string
      Partitions:[]DescribeLogDirsPartition{
        PartitionIndex:int32, PartitionSize:int64, OffsetLag:int64, IsFutureKey:bool
      }
    }
    TotalBytes:int64[v4+ def=-1], UsableBytes:int64[v4+ def=-1], IsCordoned:bool[v5+]
  }

AlterReplicaLogDirsRequest key=34 valid=1-2 flex=2+
  Dirs:[]AlterReplicaLogDir{
    Path:string
    Topics:[]AlterReplicaLogDirTopic{Name:string, Partitions:[]int32}
  }

AlterReplicaLogDirsResponse key=34 valid=1-2 flex=2+
  ThrottleTimeMs:int32
  Results:[]AlterReplicaLogDirTopicResult{
    TopicName:string
    Partitions:[]AlterReplicaLogDirPartitionResult{PartitionIndex:int32, ErrorCode:int16}
  }

ListConfigResourcesRequest key=74 valid=0-1 flex=0+
  ResourceTypes:[]int8[v1+]

ListConfigResourcesResponse key=74 valid=0-1 flex=0+
  ThrottleTimeMs:int32
  ErrorCode:int16
  ConfigResources:[]ConfigResource{ResourceName:string, ResourceType:int8[v1+ def=16]}
"""
