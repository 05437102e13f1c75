import typing as _t

import plugrad as _p

class _lu_with_info(_t.NamedTuple):
    LU: _p.Tensor
    pivots: _p.Tensor
    info: _p.Tensor

class aminmax(_t.NamedTuple):
    min: _p.Tensor
    max: _p.Tensor

class cummax(_t.NamedTuple):
    values: _p.Tensor
    indices: _p.Tensor

class cummin(_t.NamedTuple):
    values: _p.Tensor
    indices: _p.Tensor

class frexp(_t.NamedTuple):
    mantissa: _p.Tensor
    exponent: _p.Tensor

class geqrf(_t.NamedTuple):
    a: _p.Tensor
    tau: _p.Tensor

class histogram(_t.NamedTuple):
    hist: _p.Tensor
    bin_edges: _p.Tensor

class histogramdd(_t.NamedTuple):
    hist: _p.Tensor
    bin_edges: _p.Tensor

class kthvalue(_t.NamedTuple):
    values: _p.Tensor
    indices: _p.Tensor

class linalg_cholesky_ex(_t.NamedTuple):
    L: _p.Tensor
    info: _p.Tensor

class linalg_eig(_t.NamedTuple):
    eigenvalues: _p.Tensor
    eigenvectors: _p.Tensor

class linalg_eigh(_t.NamedTuple):
    eigenvalues: _p.Tensor
    eigenvectors: _p.Tensor

class linalg_inv_ex(_t.NamedTuple):
    inverse: _p.Tensor
    info: _p.Tensor

class linalg_ldl_factor(_t.NamedTuple):
    LD: _p.Tensor
    pivots: _p.Tensor

class linalg_ldl_factor_ex(_t.NamedTuple):
    LD: _p.Tensor
    pivots: _p.Tensor
    info: _p.Tensor

class linalg_lstsq(_t.NamedTuple):
    solution: _p.Tensor
    residuals: _p.Tensor
    rank: _p.Tensor
    singular_values: _p.Tensor

class linalg_lu(_t.NamedTuple):
    P: _p.Tensor
    L: _p.Tensor
    U: _p.Tensor

class linalg_lu_factor(_t.NamedTuple):
    LU: _p.Tensor
    pivots: _p.Tensor

class linalg_lu_factor_ex(_t.NamedTuple):
    LU: _p.Tensor
    pivots: _p.Tensor
    info: _p.Tensor

class linalg_qr(_t.NamedTuple):
    Q: _p.Tensor
    R: _p.Tensor

class linalg_slogdet(_t.NamedTuple):
    sign: _p.Tensor
    logabsdet: _p.Tensor

class linalg_solve_ex(_t.NamedTuple):
    result: _p.Tensor
    info: _p.Tensor

class linalg_svd(_t.NamedTuple):
    U: _p.Tensor
    S: _p.Tensor
    Vh: _p.Tensor

class lu_unpack(_t.NamedTuple):
    P: _p.Tensor
    L: _p.Tensor
    U: _p.Tensor

class max(_t.NamedTuple):
    values: _p.Tensor
    indices: _p.Tensor

class median(_t.NamedTuple):
    values: _p.Tensor
    indices: _p.Tensor

class min(_t.NamedTuple):
    values: _p.Tensor
    indices: _p.Tensor

class mode(_t.NamedTuple):
    values: _p.Tensor
    indices: _p.Tensor

class nanmedian(_t.NamedTuple):
    values: _p.Tensor
    indices: _p.Tensor

class qr(_t.NamedTuple):
    Q: _p.Tensor
    R: _p.Tensor

class slogdet(_t.NamedTuple):
    sign: _p.Tensor
    logabsdet: _p.Tensor

class sort(_t.NamedTuple):
    values: _p.Tensor
    indices: _p.Tensor

class svd(_t.NamedTuple):
    U: _p.Tensor
    S: _p.Tensor
    V: _p.Tensor

class topk(_t.NamedTuple):
    values: _p.Tensor
    indices: _p.Tensor

class triangular_solve(_t.NamedTuple):
    solution: _p.Tensor
    cloned_coefficient: _p.Tensor
