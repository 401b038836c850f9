"""States with built-in fault tolerance: number, vector, matrix, hash map, set (AF Appendix C), and of windows."""

from operators.states.base import Backup, State
from operators.states.checks import PackedKeys, pack_keys, unpack_keys
from operators.states.decaying import Decaying
from operators.states.hash_map import HashMap
from operators.states.key_set import KeySet
from operators.states.number import Number
from operators.states.vector import Matrix, Vector
from operators.states.windowed import Windowed

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
