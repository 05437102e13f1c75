"""Our compilers."""
