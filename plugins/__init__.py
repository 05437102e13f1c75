"""Our own plugins: found through entry points, like anybody's."""
