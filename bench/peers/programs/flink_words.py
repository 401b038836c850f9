"""Word count in Flink's DataStream API (flink/Words.java): flatMap, keyBy, sum."""

import flink_common
import harness

args = harness.arguments()
flink_common.java("Words", [args.scratch, args.passes, *sorted(args.data.glob("*.txt"))])
lines = [line.split() for part in args.scratch.glob("totals-*") for line in part.read_text().splitlines()]
counts = {word: int(count) for word, count in lines}
harness.report(sum(counts.values()), harness.count_result(counts, args.passes), flink_common.VERSION)
