"""From a call to a kernel: the record of an op, the families, the ways of a call, in-place forms, interception."""
