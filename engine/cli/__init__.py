"""The command line: one file a subcommand. The work itself stands in run/, tune/, services/ and show/."""
