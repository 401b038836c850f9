"""`riprap plan` apart from its command line: the files it reads, plan.json, its words, and its page."""
