"""Ordinary PyTorch programs, each a function `program_*(torch)` that returns what it computed.

They run once with PyTorch and once with plugrad, and everything they return is compared. Random numbers come
from NumPy, as the two libraries' generators differ.
"""
