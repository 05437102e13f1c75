"""The Tensor: data, type and history; creation, views, and how Python and NumPy meet it.

`plugrad.tensor` is the name of a public function, too, which is what an attribute of `plugrad` gives: in the core one
writes `from plugrad.tensor.tensor import Tensor`, never `from plugrad import tensor` nor `plugrad.tensor.Tensor`.
"""
