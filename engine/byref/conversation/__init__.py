"""What all work within one conversation shares: its scope, its life, the transaction of the host, its interpreter."""
