"""How much of a stream is in memory."""

from __future__ import annotations

from typing import Final

BLOCK: Final = 1 << 18
"""Bytes that are read at once; an array of more is read chunk by chunk, each about as long."""
END: Final = 1 << 20
"""Bytes of elements that are kept at either end of an array: of whole chunks, and at least so many."""
ENDS: Final = 16 << 20
"""Bytes that are kept of all arrays together; where there are many, less is kept of each."""
MOST: Final = 64 << 20
"""The weight of the largest element of an array, and of all outside of arrays, that is described: its bytes and brackets."""
BRACKET: Final = 16
"""What a bracket weighs beside its byte, because arrays and objects take much more memory than their text."""
LEVELS: Final = 100_000
"""Levels of nesting that no version of Python reads."""
TEXT_END: Final = 1 << 20
"""Characters that are kept of a text's beginning and of its end."""
SAMPLE: Final = 768
"""Characters of one sample of a text."""
SAMPLES: Final = 85
"""Samples of a long text, at most; at least half as many."""
ITEM_SAMPLES: Final = 32
"""Elements that are kept from between the ends of an array, at most; at least half as many."""
SMALL: Final = 1 << 14
"""Bytes of an element, on the average of its chunk, up to which it may be kept as a sample."""
SEEN: Final = 64
"""Elements of an array that its first expression is made of."""
