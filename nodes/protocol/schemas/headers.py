"""The response header.

A request header is not a message of this notation: its client id has a length of two bytes even
where everything else is compact. :mod:`nodes.protocol.apis` reads and writes it.
"""

TEXT = """
ResponseHeader key=- valid=0-1 flex=1+
  CorrelationId:int32
"""
