"""Makes and frees messages, and lends Python buffers to libzmq without a copy."""

def live() -> tuple[int, int]:
    """Numbers of message structs and lent buffers that this process holds now; both 0 when every Network is closed."""
