"""Our hooks on ops: what `plugrad.op_hooks` holds."""
