"""Request and response headers."""

TEXT = """
RequestHeader key=- valid=1-2 flex=2+
  RequestApiKey:int16
  RequestApiVersion:int16
  CorrelationId:int32
  ClientId:string[v1+ null@1+]

ResponseHeader key=- valid=0-1 flex=1+
  CorrelationId:int32
"""
