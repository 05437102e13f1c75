"""The Tensor: data, type and history; creation, views, printing, and how Python and NumPy meet it."""
