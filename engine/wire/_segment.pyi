"""Maps another worker's segment, by what that worker said of it."""

class Segment:
    """The memory stays mapped as long as this lives, whatever happens to its worker."""

    def __init__(self, pid: int, descriptor: int, token: bytes) -> None:
        """Map the file `descriptor` of process `pid`; OSError when that is not the segment which `token` names."""
