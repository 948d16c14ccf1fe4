"""The way of a tool's output, from what the tool returned to what the model reads.

`process` is the way itself. Its stages are modules, in this order: `prepare` (no SQL), `outlook` (one look at the database),
`plan` (writes nothing), `stage` (bytes, which nobody sees yet) and `commit` (one transaction). `ingested` stores a large
stream while it comes, `replay` answers what was answered before, `fallback` goes on where the database or the store is away.
"""
