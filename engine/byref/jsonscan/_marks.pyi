Place = tuple[int, int, int, int, int, int]

def broken(piece: bytes, place: Place, /) -> tuple[bytes, int, Place]: ...
def structure(block: bytes, window: int, /) -> tuple[int, int, int, bytes]: ...
def forms(
    text: bytes,
    at: int,
    stop: int,
    most: int,
    secret: int,
    counts: dict[int, int],
    examples: list[tuple[int, int, int]],
    keys: list[bytes] | None,
    /,
) -> tuple[int, int, int, int] | None: ...
