"""Expected answers of a controller, derived a second time from the committed log alone.

Every captured answer is compared with the states that the committed log went through between
the request and the answer. The rules are Kafka's, written here independently of the nodes.
"""
