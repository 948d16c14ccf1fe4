"""How much of a stream is in memory."""

from __future__ import annotations

from typing import Final

BLOCK: Final = 1 << 18
"""Bytes looked at in one go; an array of more is read slice by slice, each about as long."""
BIG: Final = 1 << 20
"""Bytes beyond which even one slice is decoded in parts, for the sake of other threads."""
END: Final = 1 << 20
"""Bytes of an array's elements kept from its start, and from its end: those of whole slices, and at least so many."""
ENDS: Final = 16 << 20
"""Bytes kept of all arrays together; of each there is kept less where there are many."""
MOST: Final = 64 << 20
"""The weight, about its bytes, of one element of an array, or of all outside the arrays, that is still described."""
BRACKET: Final = 16
"""What a bracket weighs beyond its byte: a container takes much more memory than its text."""
LEVELS: Final = 100_000
"""Depth of nesting that no version of Python reads."""
TEXT_END: Final = 1 << 20
"""Characters kept of a text's beginning and of its end."""
SAMPLE: Final = 768
"""Characters of one sample of a text."""
SAMPLES: Final = 85
"""Samples of a text, at most; at least half as many."""
ITEM_SAMPLES: Final = 32
"""Elements kept from between the ends of an array, at most; at least half as many."""
SMALL: Final = 1 << 14
"""Bytes of an element, on average of its slice, that may be kept as a sample."""
SEEN: Final = 64
"""Elements of an array that an expression of the others is made of at first."""
TO_LOSE: Final = 1 << 19
"""Bytes that might be parsed in the time that expressions may take in vain for one array that passes by."""
LOST_OF_MATCHED: Final = 0.25
"""Of what it would have taken to parse what was matched: the share that may be lost in addition."""
COST: Final = 32
"""Bytes parsed in the time in which one byte of an expression is compiled."""
COST_ONCE: Final = 1 << 14
"""Bytes parsed in the time that any expression takes."""
