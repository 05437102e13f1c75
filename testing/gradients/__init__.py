"""Judging gradients: measured slopes with error bars against what backward gives.

`checker` has the public functions. A function is first made a map between flat vectors (`flat`); `backward` is its
analytic side and `jacobian` the measured one, with slopes from `differences` and tolerances from `verdict`. `precision`
judges float32 and less, `layouts` other strides, `transforms` forward mode and `vmap`. `of_ops` runs all of it over the
samples of ops, and `mutations` makes the wrong gradients that it is tested with.
"""
