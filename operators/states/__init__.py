"""States with built-in fault tolerance: number, vector, matrix, hash map, set (AF Appendix C), and of windows."""

from riprap.operators.states.base import Backup, State
from riprap.operators.states.checks import PackedKeys, pack_keys, unpack_keys
from riprap.operators.states.decaying import Decaying
from riprap.operators.states.hash_map import HashMap
from riprap.operators.states.key_set import KeySet
from riprap.operators.states.number import Number
from riprap.operators.states.vector import Matrix, Vector
from riprap.operators.states.windowed import Windowed

__all__ = [
    "Backup",
    "Decaying",
    "HashMap",
    "KeySet",
    "Matrix",
    "Number",
    "PackedKeys",
    "State",
    "Vector",
    "Windowed",
    "pack_keys",
    "unpack_keys",
]
