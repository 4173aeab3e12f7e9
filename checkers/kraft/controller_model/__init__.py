"""The controller, a second time: which answers and records a request allows in which state.

``metadata_model`` applies records, ``replay`` the whole committed log, and ``state`` has all states
that it went through. An answer is compared with the states between its request and itself:
``refusals`` has the error codes that each of them allows, ``effects`` the records that a success
must have left, ``reads`` the content of an answer. The rules are Kafka's, written here
independently of the nodes.
"""
