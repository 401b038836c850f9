"""Heavy hitters in Flink's DataStream API (flink/Flows.java), a count-min sketch: a record is a packet."""

import flink_common
import harness

flink_common.heavy_hitters(harness.arguments(), packets_per_record=1)
