"""Binds libzmq's C functions from the copy that pyzmq has already loaded, so that the process holds only one."""

VERSION_MIN: tuple[int, int, int]

def version() -> tuple[int, int, int]:
    """The version of the libzmq that is bound. Importing this module raises ImportError when there is none to bind."""
