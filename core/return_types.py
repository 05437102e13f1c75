"""The named tuples that ops with several results return; filled as ops are declared."""
