"""Static analysis of Python, jq, SQL and templates: the names they read and change, what they need, whether they are plain."""
