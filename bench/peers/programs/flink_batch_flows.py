"""Heavy hitters in Flink's DataStream API (flink/Flows.java), count-min: a record is an array of 1,000 packets."""

import flink_common
import harness

flink_common.heavy_hitters(harness.arguments(), packets_per_record=1000)
