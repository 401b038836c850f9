"""Coded stages inside a graph: links between two tasks whose blocks travel in stripes over a third stage (DESIGN 4b).

packing.py      a block as bytes that can be coded, and the result that a coded stage makes of it
striped.py      the two ends of such a link: deals rows of pieces, puts results in order, decodes what is lost
coded_stage.py  the task between them
end.py          the tasks of the stages before and behind

Which workers are joined says engine/flow/segment.py; encoding, hedging and decoding are those of the scheme erasure.
"""
