"""Tables out of documents: Excel, Parquet, Arrow, SQLite, HTML, XML, YAML, and archives of these.

`kinds` tells from the first bytes what a document may be, and is all that a host uses of this package. Everything else reads bytes
that may attack their parser, so it runs in jailed processes alone (`run.tablesbody`): `reading` picks the reader, and each reader
yields the frames of a reply, tables (`wire.Table`), texts found in archives (`wire.Member`), and what was left out with the reason
(`wire.LeftOut`). `building` writes the records of a table.

What every reader promises: a table has each row and each cell that is not empty, in a record, in the names of its columns or in
`before` and `after`; a document that cannot be read so is left out, and says why. Values keep what the document says: what is text
there becomes a number only if nothing of it is lost.
"""
