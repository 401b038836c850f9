"""Spark jobs that turn raw data sets into shards, one job a file; they import nothing else of Riprap."""
