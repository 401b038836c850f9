"""The three-stage form: source, processor, sink (LEC III-A), each with a task class of its own."""
