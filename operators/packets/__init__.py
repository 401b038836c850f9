"""Streams of packets: heavy hitters by count-min sketches."""
