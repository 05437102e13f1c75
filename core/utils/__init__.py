"""`plugrad.utils`: data loading and checkpointing."""
