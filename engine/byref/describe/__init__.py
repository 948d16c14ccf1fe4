"""What a parsed JSON value is like: pure functions of the value.

- its schema (`schema.infer`): `columns` and `alike` read the value into `nodes`, `fit` writes these as JSON Schema;
- its shape at a glance (`shape`);
- a preview of it (`preview`), or text and JSON cut to head and tail (`truncate`): both by `cuts`, which spends a `room` in
  characters, and by `search`, which looks for the room that takes a budget of tokens.

`rows.Rows` stands for an array that was too long to be kept in memory.
"""
