"""A whole test in virtual time, from a seed, by the same schedule and workloads as on hosts."""
