"""Online logistic regression in Flink's DataStream API (flink/Logistic.java): a record is an item."""

import flink_common
import harness

flink_common.train(harness.arguments(), rows_per_record=1)
