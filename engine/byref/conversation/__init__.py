"""The parts shared by all work within one conversation: its scope, its life cycle, the host's transaction, its interpreter."""
