"""How long a slice is."""

from __future__ import annotations

from typing import Final

BIG: Final = 1 << 20
"""Characters or bytes beyond which slices are worth their while."""
CHUNK: Final = 1 << 19
"""Characters or bytes encoded or looked through at once."""
COPIED: Final = 1 << 24
"""Characters or bytes that are merely copied, at once."""
ITEMS: Final = 1 << 13
"""Members encoded or freed at once, at most."""
SLICE: Final = 1 << 18
"""Characters parsed at once, at least; at most four times as many."""
WINDOWS: Final = (1 << 12, 1 << 16)
"""Characters in which the end of one value is looked for, before it is entered and read part by part."""
