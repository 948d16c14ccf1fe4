"""The first wall: a Python for analytics in which mistakes and reaches for what is not there get clear answers.

`source` is for the host's side and imports nothing but the standard library; everything else lives in the zygote.
"""
