"""Products of matrices in ONNX."""

from __future__ import annotations

from plugrad.onnx.declaring import form


@form("matmul", "mm", "bmm", "mv", "dot")
def matmul_form(g, input, other):
    return g.op("MatMul", input, other)


@form("linear")
def linear_form(g, input, weight, bias=None):
    if weight.rank != 2:
        raise NotImplementedError("a weight that is no matrix can't be exported: write x @ weight")
    if input.rank == 2:
        return g.op("Gemm", input, weight, bias, transB=1)
    product = g.op("MatMul", input, g.permute(weight, [1, 0]))
    return product if bias is None else g.op("Add", product, bias)


@form("addmm")
def addmm_form(g, input, mat1, mat2, *, beta=1, alpha=1):
    if g.results[0].dtype.is_floating_point:
        return g.op("Gemm", mat1, mat2, input, alpha=float(alpha), beta=float(beta))
    product, input = g.op("MatMul", mat1, mat2), input if beta == 1 else g.op("Mul", input, beta)
    return g.op("Add", product if alpha == 1 else g.op("Mul", product, alpha), input)


@form("contract")
def contract_form(g, input, other, labels):
    return g.op("Einsum", input, other, equation=f"{''.join(labels[0])},{''.join(labels[1])}->{''.join(labels[2])}")
