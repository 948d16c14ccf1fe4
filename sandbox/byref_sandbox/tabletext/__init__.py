"""Text that is a table, recognised by its content: no name, no MIME type, no parser of another's.

`recognise` says what a text is: tables, of which every byte is accounted for, or `NotATable` with the reason and its place. It
reads text only, and holds no more of it in memory than the text itself and the rows that are unlike the others.

- `dialects` finds how cells are divided and quoted; `delimited` reads such text, by matching rows with an expression (`matcher`)
  and those that differ one by one (`rows`);
- `boxes` reads what psql and MySQL draw, and the tables of Markdown and reStructuredText; `aligned` reads columns that spaces
  keep apart, as `df` and `kubectl` print them; `listing` files as `ls -l` lists them; `expanded` records with a member on each line; `ndjson` a JSON object on each line;
- `passing` recognises delimited text that is too large for memory, while it passes;
- `kinds` says what the cells of a column are; `result` is what comes of all this;
- `reading` is how the records are read again, by whoever has the text, and `arrow` reads most of them faster.
"""

from byref_sandbox.tabletext.passing import Passed, Passing
from byref_sandbox.tabletext.reading import Damaged, read
from byref_sandbox.tabletext.recognising import FORMATS, recognise
from byref_sandbox.tabletext.result import Dialect, NotATable, Part, Ragged, Recognised, Table

__all__ = [
    "FORMATS",
    "Damaged",
    "Dialect",
    "NotATable",
    "Part",
    "Passed",
    "Passing",
    "Ragged",
    "Recognised",
    "Table",
    "read",
    "recognise",
]
