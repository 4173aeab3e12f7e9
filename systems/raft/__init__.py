"""A replicated store on the Raft core: in the simulator, and as processes on hosts."""
