"""The command line: one file a subcommand. What they do stands in run/, tune/, services/ and show/."""
