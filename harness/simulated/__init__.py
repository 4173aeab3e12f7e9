"""A complete test in virtual time, with the same schedules and workloads as on hosts."""
