"""Our formats of files."""
