"""`byref gateway`: stands between any MCP client and any MCP servers, and passes their big results by reference."""
