"""The names of all operators that come with the package, by family."""

from __future__ import annotations

from difflib import get_close_matches

SHIPPED: dict[str, tuple[str, ...]] = {
    "Sources": ("shard_source:ShardSource", "synthetic:Classification"),
    "Learning": (
        "linear_regression:Gradient", "linear_regression:Model", "logistic_regression:Gradient",
        "logistic_regression:Model", "svm:Gradient", "svm:Model", "kmeans:Assignment", "kmeans:Model",
        "random_features:Gradient", "random_features:Model",
    ),
    "Predicting": (
        "linear_prediction:LinearRegression", "linear_prediction:LogisticRegression",
        "linear_prediction:SupportVectorMachine", "kmeans_prediction:NearestCentre", "network_prediction:Network",
        "prediction:Predictions",
    ),
    "Dataflow: passing on": ("forward:Forward",),
    "Dataflow: output seen exactly once": ("row_files:RowFiles", "sqlite_rows:SqliteRows"),
    "Dataflow: text": (
        "grep:Grep", "grep:MergeLines", "word_count:SplitWords", "word_count:CountWords",
        "word_count:CountRecentWords", "top_paths:ReadRequests", "top_paths:CountPaths", "top_paths:TopPaths",
    ),
    "Dataflow: event time": ("timed_lines:TimedLines", "panes:Panes", "interval_join:IntervalJoin"),
    "Dataflow: packets": (
        "heavy_hitters:LocalSketch", "heavy_hitters:GlobalSketch", "ripple_join:SamplePackets",
        "ripple_join:RippleJoin",
    ),
    "Dataflow: graphs": (
        "read_edges:ReadEdges", "pagerank:PageRank", "components:ConnectedComponents", "shortest_paths:ShortestPaths",
        "asynchronous_paths:AsynchronousPaths", "factors:AlternatingLeastSquares",
    ),
    "Dataflow: loops of one's own": ("iterate:Iterate", "delta_iterate:DeltaIterate"),
    "Dataflow: the greatest": ("read_rows:ReadRows", "top_n:TopN"),
    "Dataflow: learning": (
        "gradient:LocalGradient", "gradient:GlobalGradient", "online_logistic:LocalModel",
        "online_logistic:GlobalModel", "full_gradient:FullGradient", "lloyd:Lloyd",
    ),
}  # fmt: skip
"""Family -> import paths, the stages of an algorithm in the order of the stream."""


def near(text: str) -> str:
    """The shipped operator, or module of some, whose name is close to `text`; empty when none is."""
    known = [name for names in SHIPPED.values() for name in names]
    close = get_close_matches(text, known if ":" in text else {name.partition(":")[0] for name in known}, n=1)
    return close[0] if close else ""
