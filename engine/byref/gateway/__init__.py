"""`byref gateway`: a proxy between any MCP client and any MCP servers that passes their big results by reference."""
