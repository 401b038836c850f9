"""Backup servers: daemons that keep workers' states and items in append-only segments, and the client that workers use.

record.py    one record, on disk and on the wire; body.py its arrays
segments.py  append-only files of records, scanned and repaired at the start; storage*.py beneath them
store.py     what is live, by worker: restore points, fences, compaction
server.py    the daemon; client.py the worker's end; protocol.py what they say; pieces.py, places.py how records come
"""
