"""One run, behind the wall: the code, a jq program, a query or a template, with its data."""
