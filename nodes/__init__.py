"""What gets deployed: KRaft controllers in pure Python, for a bare Python 3.11 or newer.

Imports nothing else of the project and no third-party package (a compiled CRC is used
where present).
"""
