"""Word count in Spark Structured Streaming: split, explode, groupBy, counts of all words to the memory sink."""

import harness
import spark_common
from pyspark import __version__
from pyspark.sql import functions as f

FILES_A_TRIGGER = 64

args = harness.arguments()
books = sorted(args.data.glob("*.txt"))
for name, files in (("warm", books[:4]), ("all", books * args.passes)):
    (args.scratch / name).mkdir()
    for number, file in enumerate(files):
        (args.scratch / name / f"{number:05d}.txt").hardlink_to(file)
spark = spark_common.session()
for name in ("warm", "all"):
    lines = spark.readStream.option("maxFilesPerTrigger", FILES_A_TRIGGER).text(str(args.scratch / name))
    words = lines.select(f.explode(f.split(f.lower("value"), "[^a-z]+")).alias("word")).filter("word != ''")
    counts = words.groupBy("word").count()
    if name == "all":
        harness.begin()
    query = counts.writeStream.format("memory").queryName(name).outputMode("complete").trigger(availableNow=True)
    query.option("checkpointLocation", str(args.scratch / f"checkpoint-{name}")).start().awaitTermination()
harness.end()
found = {row["word"]: row["count"] for row in spark.table("all").collect()}
spark_common.stop(spark)
harness.report(sum(found.values()), harness.count_result(found, args.passes), f"Spark {__version__}")
