"""The command line: one file a subcommand, and the parts that `riprap run` is made of."""
