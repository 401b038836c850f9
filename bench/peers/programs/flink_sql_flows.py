"""Heavy hitters in Flink SQL: exact sums by flow over packets in CSV files, which were written beforehand."""

from pathlib import Path

import flink_common
import flink_sql
import harness
import pandas

args = harness.arguments()
shards = harness.shards(args.data)
cache = Path(".data/peers/flink/csv") / args.data.name
cache.mkdir(parents=True, exist_ok=True)
for number, shard in enumerate(shards):
    file = cache / f"{number:05d}.csv"
    if not file.exists():
        made = args.scratch / file.name
        columns = {"flow": shard["flow"].view("int64"), "payload": shard["payload"]}
        pandas.DataFrame(columns).to_csv(made, header=False, index=False)
        made.rename(file)
for name, passes in (("warm", 1), ("all", args.passes)):
    (args.scratch / name).mkdir()
    for copy in range(passes):
        for file in sorted(cache.glob("*.csv"))[: 1 if name == "warm" else None]:
            (args.scratch / name / f"{copy:03d}-{file.name}").hardlink_to(file)
session = flink_sql.session()
heavy = []
for name in ("warm", "all"):
    session.execute_sql(
        f"CREATE TABLE `{name}` (flow BIGINT, payload BIGINT) "
        f"WITH ('connector' = 'filesystem', 'path' = '{args.scratch / name}', 'format' = 'csv')"
    )
    if name == "all":
        harness.begin()
    sums = f"SELECT flow, SUM(payload) FROM `{name}` GROUP BY flow HAVING SUM(payload) > {args.threshold * args.passes}"
    heavy = session.sql_query(sums).to_pandas().iloc[:, 0].tolist()
harness.end()
flows = [flow % 2**64 for flow in heavy]
harness.report(args.passes * sum(map(len, shards)), {"flows": flows}, flink_common.VERSION)
