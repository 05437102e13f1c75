"""Running checks and measurements: in processes, with a memory of what is finished, and as reports."""
