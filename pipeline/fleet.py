"""Gold tables over all runs: facts that need more than one run.

They are small, and every analysis computes them again from the tables of single runs.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from kraftwreck.pipeline.schemas import FLEET

_EVERY = """
    SELECT run, test_key, code, day, tree, system, workload, cluster, seed, faults, valid,
        started, repeat, operations, ok, availability, p99_ms
    FROM runs
    UNION ALL
    -- A run of a night that has a folder is among the runs already.
    SELECT NULL, substr(sha2(coalesce(repeat, concat_ws(' ', night, n)), 256), 1, 16), NULL, day,
        tree, system, workload, cluster, seed, faults, valid, started, repeat, NULL, NULL, NULL,
        NULL
    FROM night_runs LEFT ANTI JOIN runs ON night_runs.run = runs.run
"""
_VERDICTS = """count(*) AS runs, count_if(valid = 'true') AS valid,
    count_if(valid = 'false') AS invalid, count_if(valid = 'unknown') AS unknown"""

_QUERIES = {
    "recovery_by_fault": """
        SELECT system, kind, shape, simulated, count(*) AS faults, count(healed_ns) AS healed,
            count(recovery_s) AS recovered,
            percentile(failover_s, 0.5) AS failover_p50_s,
            percentile(failover_s, 0.95) AS failover_p95_s,
            percentile(recovery_s, 0.5) AS recovery_p50_s,
            percentile(recovery_s, 0.95) AS recovery_p95_s,
            max(recovery_s) AS recovery_max_s
        FROM recoveries JOIN runs USING (run)
        GROUP BY system, kind, shape, simulated
    """,
    "fault_pairs": """
        SELECT system, substring_index(item, ' > ', 1) AS first,
            substring_index(item, ' > ', -1) AS second,
            count_if(counter = 'follows') AS runs, count_if(counter = 'overlaps') AS overlapping
        FROM coverage JOIN runs USING (run) WHERE counter IN ('follows', 'overlaps')
        GROUP BY system, item
    """,
    "states_struck": """
        SELECT system, substring_index(item, ' ', 1) AS state,
            substring_index(item, ' ', -1) AS fault, count(*) AS runs
        FROM coverage JOIN runs USING (run) WHERE counter = 'struck'
        GROUP BY system, item
    """,
    "flakes": """
        SELECT test_key, tree, code, system, workload, cluster, max(seed) AS seed, COUNTED,
            count(DISTINCT valid) > 1 AS flaky,
            max_by(run, started) FILTER (WHERE run IS NOT NULL) AS last_run,
            max(repeat) AS repeat
        FROM every GROUP BY test_key, tree, code, system, workload, cluster
        HAVING count(*) > 1
    """,
    "trend": """
        WITH told AS (
            SELECT *, explode(concat(array('*'), if(size(faults) = 0, array('none'), faults)))
                AS fault
            FROM every
        ), healed AS (
            SELECT day, tree, system, workload, cluster, fault,
                percentile(recovery_s, 0.5) AS recovery_p50_s
            FROM told JOIN recoveries
                ON told.run = recoveries.run AND fault IN ('*', recoveries.kind)
            GROUP BY ALL
        ), counted AS (
            SELECT day, tree, system, workload, cluster, fault, COUNTED,
                sum(operations) AS operations, sum(ok) AS ok, avg(availability) AS availability,
                percentile(p99_ms, 0.5) AS p99_ms
            FROM told GROUP BY day, tree, system, workload, cluster, fault
        )
        SELECT counted.*, recovery_p50_s FROM counted LEFT JOIN healed
            ON counted.day <=> healed.day AND counted.tree <=> healed.tree
            AND counted.system <=> healed.system AND counted.workload <=> healed.workload
            AND counted.cluster <=> healed.cluster AND counted.fault = healed.fault
    """,
}
SOURCES = ("runs", "recoveries", "coverage", "night_runs")
"""The tables from which these are computed."""


def fleet(spark: SparkSession, sources: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Return the tables; ``sources`` are all rows of :data:`SOURCES`."""
    for name in SOURCES:
        sources[name].createOrReplaceTempView(name)
    spark.sql(_EVERY).createOrReplaceTempView("every")
    return {
        name: spark.sql(query.replace("COUNTED", _VERDICTS)).select(*FLEET[name].names)
        for name, query in _QUERIES.items()
    }
