"""The deployed program: KRaft controllers and brokers in pure Python 3.11 or newer.

It imports no other package of the project and no third-party package, except a compiled CRC where
one is installed.
"""
