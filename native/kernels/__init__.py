"""The templates of kernels in C: see README.md above."""
