"""Small programs with libraries that import torch: run as a file, it prints what each of them computes as JSON."""
