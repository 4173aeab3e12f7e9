"""KRaft's nodes as whole processes over real sockets and files, in virtual time."""
