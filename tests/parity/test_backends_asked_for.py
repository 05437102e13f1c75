"""What programs ask `torch.backends` and `torch.nn.attention.bias` for."""

import pytest

import plugrad

torch = pytest.importorskip("torch")


def test_questions_have_answers_of_the_same_kind():
    for T in (torch, plugrad):
        assert T.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
        assert T.backends.mha.get_fastpath_enabled() is True
        T.backends.mha.set_fastpath_enabled(False)
        assert T.backends.mha.get_fastpath_enabled() is False
        T.backends.mha.set_fastpath_enabled(True)
        cuda = T.backends.cuda
        assert cuda.fp16_bf16_reduction_math_sdp_allowed() is cuda.is_flash_attention_available() is False
        assert cuda.preferred_blas_library().name == "Cublas"
        cuda.preferred_linalg_library("default")
        for ask in (cuda.preferred_linalg_library, cuda.preferred_blas_library):
            with pytest.raises(RuntimeError, match="Unknown input value. Choose from: default, cu"):
                ask("nothing")
            with pytest.raises(RuntimeError, match="Unknown input value type"):
                ask(3)
        q = T.ones(1, 1, 2, 2)
        params = cuda.SDPAParams(q, q, q, None, 0.0, False, False)
        assert not (cuda.can_use_flash_attention(params) or cuda.can_use_efficient_attention(params, False))


@pytest.mark.filterwarnings("ignore:Lower right causal bias will produce NaNs")
@pytest.mark.parametrize("which", ["causal_upper_left", "causal_lower_right"])
@pytest.mark.parametrize("lengths", [(3, 5), (5, 3), (4, 4)])
def test_attention_with_a_bias(which, lengths):
    import torch.nn.attention.bias

    import plugrad.nn.attention.bias

    rows, columns = lengths
    query, key = torch.randn(1, 2, rows, 4), torch.randn(1, 2, columns, 4)
    mask = getattr(torch.nn.attention.bias, which)(*lengths)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, key, mask)
    q, k = plugrad.from_numpy(query.numpy()), plugrad.from_numpy(key.numpy())
    bias = getattr(plugrad.nn.attention.bias, which)(*lengths)
    actual = plugrad.nn.functional.scaled_dot_product_attention(q, k, k, bias)
    assert type(actual) is plugrad.Tensor and bias.seq_len_q == rows and bias.seq_len_kv == columns
    assert torch.allclose(torch.from_numpy(actual.numpy()), expected, atol=1e-6, equal_nan=True)
    with pytest.raises(RuntimeError, match="2D"):
        getattr(plugrad.nn.attention.bias, which)(3)
