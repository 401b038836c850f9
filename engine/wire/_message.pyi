"""Makes and frees messages, and lends Python buffers to libzmq without a copy."""

def live() -> tuple[int, int]:
    """How many message structs and lent buffers this process holds now; both 0 when every Network is closed."""
