"""The inputs of items: shards of every format, raw text, synthetic streams, and the sources that pass them on."""
