"""Word count in Flink SQL over the text files."""

import flink_common
import flink_sql
import harness

args = harness.arguments()
books = sorted(args.data.glob("*.txt"))
for name, files in (("warm", books[:2]), ("all", books * args.passes)):
    (args.scratch / name).mkdir()
    for number, file in enumerate(files):
        (args.scratch / name / f"{number:05d}.txt").hardlink_to(file)
session = flink_sql.session()
found = {}
for name in ("warm", "all"):
    session.execute_sql(
        f"CREATE TABLE `{name}` (line STRING) "
        f"WITH ('connector' = 'filesystem', 'path' = '{args.scratch / name}', 'format' = 'raw')"
    )
    if name == "all":
        harness.begin()
    totals = session.sql_query(f"""
        SELECT word, COUNT(*) FROM `{name}`
        CROSS JOIN UNNEST(SPLIT(REGEXP_REPLACE(LOWER(line), '[^a-z]+', ' '), ' ')) AS words (word)
        WHERE word <> '' GROUP BY word
    """)
    columns = totals.to_pandas()
    found = dict(zip(columns.iloc[:, 0], columns.iloc[:, 1].tolist(), strict=True))
harness.end()
harness.report(sum(found.values()), harness.count_result(found, args.passes), flink_common.VERSION)
