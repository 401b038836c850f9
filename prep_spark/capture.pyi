import numpy as np

class Capture:
    counts: list[int]
    is_capture: bool
    ended: bool
    def parse(self, data: bytes | bytearray | memoryview, out: np.ndarray) -> tuple[int, int]: ...
    def finish(self, left_bytes: int) -> None: ...
