"""Arguments of the wrong kind: PyTorch refuses them, and so do we, with an error of its type; more in misuse.py."""

from __future__ import annotations

import functools
import operator
import warnings

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")

REFUSED = """
T.utils.checkpoint.checkpoint_sequential([T.sin, T.cos], "x", x, use_reentrant=False)
x.sum(True) | x.sum(0, 1) | x.sum('a') | x.sum(1.0) | x.sum([0.0]) | x.sum(1 << 70) | x.cumsum(True)
x.cumsum(None) | x.cumsum(1 << 70) | x.view(2.0, 3) | x.view('a') | x.view() | T.zeros(True) | T.zeros([True, 2])
T.zeros(2.0) | T.zeros() | T.zeros((2, 3.0)) | T.zeros(None) | T.zeros(1 << 62) | T.zeros(-1)
T.zeros(2, dtype='float32') | T.zeros(2, requires_grad=1) | x.sort(descending=()) | x.sort(descending=1)
x.sort(descending=None) | x.clamp('a') | x.fill_(None) | x.fill_('a') | T.lerp(1, x, x) | x.lerp(x, 'a')
T.lerp(x, 1, x) | x.permute(1, 1 << 62) | x.permute(1, 0.0) | x.permute() | T.add(x, x, alpha=None) | T.add(x, 'a')
x + 'a' | x + None | x + 10**30 | i == 10**30 | x + [1] | T.linspace(0, 1, 2.5) | T.linspace(0, 1, True)
T.linspace('a', 1, 2) | T.arange('a') | T.linalg.matrix_rank(T.ones(3, device='meta')) | T.all(2, x)
x.half(None) | x.long(T.preserve_format) | x.cpu(T.preserve_format) | x.contiguous(T.contiguous_format)
T.fft.fft(x, -1) | T.fft.irfft(x, n=-1) | T.fft.hfft(x, -2) | T.fft.fft2(x, (-2, 2)) | T.combinations(T.ones(100), 60)
T.combinations(T.ones(10**6), 10)
T.result_type(T, 1) | x.type(3) | x.byte(x) | x.int('') | x.contiguous(1.0) | T.nn.LayerNorm(0.5)
T.nn.Linear('a', 2) | T.nn.Linear(2.0, 2) | F.dropout(x, 'a') | F.dropout(x, 0.5, ()) | F.dropout(x, 0.5, 1)
F.softmax(x, 'a') | F.layer_norm(x, 3) | F.layer_norm(x, (3,), eps=None) | F.cross_entropy(x, x, reduction=3)
F.cross_entropy(x, x, label_smoothing=()) | x[object()] | x[1.0] | x['a'] | x[{}] | x[x]
s.backward(retain_graph=()) | x.requires_grad_('a') | x.requires_grad_(1) | x.softmax(0.0) | x.softmax(0, dtype=3)
T.cat(x) | T.cat(3) | T.cat([x, 3]) | T.cat([x], 'a') | T.stack((x, None)) | x.new_zeros('a') | x.new_zeros()
T.full((2,), 'a') | T.full((2,), None) | T.full(2, 3) | T.randint(10, (2,), generator=3) | T.rand(2, generator='a')
x.uniform_(generator=1j) | x.unsqueeze(0.) | x.unsqueeze(None) | x.squeeze(True) | x.transpose(0, '1')
x.transpose(0, True) | x.topk(1.0) | x.topk(True) | x.expand(2.0, 3) | x.expand('a') | x.repeat(2., 1)
x.split(1.0) | x.split(True) | x.chunk(2.0) | x.chunk(True) | x.flip(True) | x.roll(1.0)
F.avg_pool2d(x[None], 2.0) | F.avg_pool2d(x[None], True) | F.max_pool2d(x[None], 2, ceil_mode=1) | T.einsum(3, x)
T.einsum('ij', 3) | x.norm(()) | F.adaptive_max_pool1d(x, 1 << 62) | F.adaptive_avg_pool2d(x[None], 1 << 64)
T.gcd(i, 2) | i.gcd_(2) | T.numel(3) | T.is_complex('a') | T.hstack(x) | T.addcmul(x, 1, x)
T.masked_fill(x, 3, 1.) | T.where(3, x, x) | T.prelu(x, x.double()[0]) | F.conv2d(n, T.ones(1, 1, 1, 1))
T.vander(3) | F.mse_loss('a', x) | T.cumsum(x, 0, out=3) | x.max(0, out=x) | T.cummax(x, 'a') | T.mode(x, 1.0)
T.aminmax(x, dim=(0, 1)) | T.histc(x, 2.0) | T.take_along_dim(x, i, 'a') | T.nonzero('a') | T.flip(x, 'a')
T.cumprod(x, 0.5) | T.any(x, 'a') | F.max_pool2d(x[None], 2, return_indices=True, stride='a') | T.tensor(1 << 64)
T.tensor(1 << 63) | T.tensor([1], requires_grad=2) | T.nn.TripletMarginLoss(margin='a')
T.nn.LSTM(3, 4, batch_first=1) | T.set_grad_enabled(1) | x.numpy(force=1) | T.scatter(x, 0, i) | T.tensor(None)
T.tensor('abc') | T.tensor({1: 2}) | T.tensor({1}) | T.tensor([None]) | T.tensor([[1], None]) | T.tensor(['a'])
T.tensor([1, 'a']) | T.tensor([{}, 1]) | T.tensor([1, [2]]) | T.tensor([[1, 2], 3]) | T.tensor([[1], [2, 3]])
T.tensor([[1], [[2]]]) | T.tensor(object()) | T.as_tensor(b'a') | T.tensor(None, dtype=T.float32)
T.tensor([[1], None], dtype=T.int64) | T.tensor(object(), dtype=T.float32) | T.tensor([n, n[0]]) | T.randint()
T.randint(5) | T.randint(2, 5) | T.randint_like(x) | T.optim.Adam(T.nn.Linear(2, 2)) | T.optim.Adam(None)
T.optim.SGD([x], 'a') | T.nn.Dropout('a') | T.nn.Conv2d(3, 4)
T.add(x, x, alpha=True) | T.add(i, i, alpha=1.0) | T.sub(i, i, alpha=True) | T.fmod(x, None) | T.eq(x, None)
T.pow(x, None) | T.atan2(x, None) | x.mul_(None) | T.special.zeta(x, None) | T.pow(2, 3) | T.Size([1.5]) | T.Size('ab')
T.Size(3) | T.device('cpu', 'a') | T.device('cpu', (1,)) | T.set_num_threads('a') | T.set_num_threads(0)
T.set_float32_matmul_precision(3) | T.use_deterministic_algorithms(1) | T.autograd.set_detect_anomaly(1)
T.autograd.set_detect_anomaly(True, check_nan=None) | T.from_dlpack(3) | T.frombuffer(3, dtype=T.int64)
T.asarray([1], dtype='a') | T.asarray([1], copy='a') | x.is_set_to(3) | x.is_same_size(3)
T.func.grad(lambda a: a.sum(), argnums=1.0)(x) | T.func.jacrev(lambda a: a, argnums=(0, 0))(x)
T.autograd.functional.vjp(lambda a: a, x, 1.5) | T.autograd.functional.jvp(lambda a: a, x, [[]])
T.nn.Linear(3, 2).to('cpu', False) | T.nn.ModuleList([x.to(T.complex64)]) | F.pad(x, (1.0, 1.0)) | F.pad(x, (1.5, 1))
T.nn.ZeroPad2d(1.0)(x[None]) | F.pad(x, (True, 1.5)) | T.polar(x, x.double())
T.testing.make_tensor(2, dtype=2, device="cpu")
x.to('cpu', 'cpu') | x.to(T.float64, T.float32) | x.to(T.float64, None) | x.to(x, T.float64) | x.to('cpu', True)
x.to(T.float64, True, True, True) | x.to(x, True, True, True) | x.to('cpu', T.float64, dtype=T.float32)
x.to('cpu', device='cpu') | x.to(T.float64, device='cpu') | x.to(x, dtype=T.float64)
T.autograd.grad(None, [x]) | T.autograd.grad(s, None) | T.autograd.grad(s, [1.0]) | T.autograd.grad(s, 'x')
s.backward(inputs=[1]) | T.cumsum(x, 0, dtype=T.bool) | T.cumprod(i, 0, dtype=T.bool)
T.nn.LSTM(3, 4, bias=1) | T.nn.RNN(0, 4) | T.nn.CTCLoss(1, blank=0) | x.min(keepdim=True) | x.median(keepdim=True)
x.max(other=x, keepdim=True) | T.nn.init.calculate_gain([]) | F.adaptive_avg_pool1d(x.sum(), 2)
F.adaptive_max_pool2d(x.sum(), (2, 2)) | x.transpose(0, 1 << 62)
T.nn.utils.rnn.pad_sequence(3) | T.nn.utils.rnn.pad_sequence([x], padding_value='a')
T.nn.utils.rnn.unpad_sequence(x, i[0], batch_first=True) | T.nn.utils.rnn.invert_permutation(x[0])
x.index_put_((range(2),), T.ones(3)) | x.index_put_(i, T.ones(3)) | x.index_put_((None, i), T.ones(3))
T.LongTensor(x) | T.LongTensor(2.0) | T.full_like(x, 1j) | T.roll(x, [1.0, 2], (0, 1)) | F.avg_pool1d(x[None], (2.0,))
F.max_pool2d(x[None], (2.0, 1)) | F.max_pool2d(x[None], 1 << 62) | T.linalg.cross(x, x.double())
T.movedim(x, (0,), 1)
T.binomial(x, i) | T.unravel_index(x, (3, 2)) | T.tensordot(x, 3, 1) | T.tensordot(x, x, '') | T.mvlgamma(x, 1 << 63)
x.set_(x, size=(2,)) | x.set_(x, 0) | x.set_(x.untyped_storage(), 1) | x.set_(size=(2,)) | x.__dlpack__(copy=1)
x.__dlpack__(dl_device='-1') | T.nn.modules() | T.mm(T.eye(2).to_sparse(), T.ones(2)) | T.sparse.sum(x, 0)
T.UntypedStorage(4).__setitem__(1 << 63, 1)
T.nn.utils.rnn.PackedSequence(x, [1]) | x.__torch_function__(T.sin, (), (x,), x)
T.eye(2).to_sparse().coalesce().unsqueeze(0).indices()
T.nn.FractionalMaxPool2d(-0.5, 2)(x[None])
stepped(lr=[0.1, 0.2]) | stepped(lr='a') | stepped(lr=np.ones(2)) | stepped(lr=object())
x[np.array(['a'])] | x[np.array([None])] | x[0, np.array(['1'])] | x[0, (1, (2,))] | x[i, [1, [2, 3]]]
T.zeros(2, dtype=np.timedelta64(1)) | T.UntypedStorage(np.array(1))
T.UntypedStorage(4).resize_(i[0]) | T.UntypedStorage(4)[i[0]] | T.rand(x.to_sparse()) | T.zeros(5, x.to_sparse())
x.to_sparse_csr(i) | x.to_sparse_csr(1) | x.to_sparse_csc(slice(None))
T.autograd.gradgradcheck(lambda a: a * a, (T.ones(1, dtype=T.float64, requires_grad=True),), atol=[])
T.utils.checkpoint.checkpoint_sequential([T.sin, T.cos], 1, x, use_reentrant=False, debug=True)
T.autograd.graph.increment_version(np.array(1))
stepped(lr=(0.1,)) | stepped(lr=T.ones(3)) | stepped(lr=T.Size([2]))
T.tensor_split(x, 1 << 63) | T.autograd.grad(s, s, allow_unused=[]) | T.Generator().manual_seed(1.5)
T.nn.ReplicationPad3d(1 << 62)(T.ones(1, 1, 2, 2, 2))
T.lu_solve(x[0], x[:, :2], T.ones(2).int()) | T.empty_strided((2,), (3, 1)) | F.multilabel_margin_loss(x, x.half())
exec('x[0] = [1., 2., 3.]') | exec('x[0] = np.ones(3)') | exec('x[[0, 1]] = (1., 2., 3.)') | exec('x[0, 0] = [1.]')
T.func.jvp(lambda a: a, (2,), (x,)) | F.mse_loss(x, x, reduction=[]) | T.movedim(x, (0,), 1)
x.copy_([1, 2, 3]) | x.copy_('a') | i.fill_(1 << 64) | x[1 << 70] | F.pad(T.ones(1, 0, 3), (1, 1), mode='reflect')
T.nn.ReplicationPad1d(1)(T.ones(2, 0, 3))
T.nn.CTCLoss()(T.ones(4, 1, 3).log_softmax(2), T.tensor([[1, 2]]), T.tensor([4]), (2,)) | T.optim.Adam([x], betas=0.9)
F.avg_pool2d(x[None], (True,)) | F.adaptive_max_pool2d(x[None], [1.0, 2]) | x.split([1.0, 1]) | x.tensor_split((True,))
F.interpolate(x[None], size=(2.0,)) | T.fft.fftn(x, (2.0, 3)) | F.layer_norm(x, (3.0,)) | T.randint(5, [1.0, 2])
x.repeat((True, 2)) | x.tile((True,)) | T.roll(x, [True, 1], (0, 1)) | x[np.bool_(True)] | x.to((True,))
x.to('cpu', 1)
x.to(T.float64, device='cpu') | x.to(1 << 63) | x.type_as(T.float32) | x.type_as(True) | ~1.5
x.sub(x, alpha=T.tensor(1j))
x.sub(x, alpha=T.tensor(True)) | T.addmm(x, x, T.ones(3, 3), alpha=1j) | T.addmm(x, x, T.ones(3, 3), beta=T.tensor(1j))
T.addmv(x[0], T.ones(3, 3), x[0], beta=1j) | T.addr(x, x[:, 0], x[0], alpha=True) | T.addr(x, x[:, 0], x[0], beta=1j)
T.clamp(x, 1, x) | x.clamp(x, 1.0) | T.dropout(x, 1.5, True) | T.alpha_dropout(x, 1.5, True)
F.dropout(x, float('nan'))
T.feature_alpha_dropout(x, 0.5) | F.dropout3d(x.sum()) | T.special.multigammaln(x.bool(), 3)
T.einsum('i,j', x[0], n[0, 0, 0])
T.utils.data.DataLoader([1], prefetch_factor=2) | T.utils.data.DataLoader([1], persistent_workers=True)
T.lu_unpack(x[0], i[0].int()) | T.linalg.lu_solve(T.eye(3), T.ones(2).int(), T.ones(3, 1))
T.cholesky_inverse(T.zeros(2, 2))
T.fft.fftfreq(4, dtype=T.bool) | F.interpolate(x[None], 3, mode={1})
F.upsample_nearest(x[None, None], scale_factor=[x, 1])
F.fractional_max_pool2d(T.ones(1, 1, 5, 5), 2, 3, _random_samples=T.ones(1)) | T.slice_scatter(x, x, 1, 0, None, -1)
T.index_select(s, 0, T.tensor([0, 0])) | T.index_select(x, 1, T.tensor([7])) | T.embedding(x[:0], i[0])
T.randint_like(x.to(T.complex64), 5) | T.meshgrid(x[0], x[0].to('meta')) | T.bilinear(x, x.double(), T.ones(2, 3, 3))
T.Generator().manual_seed(True) | x.to('meta').share_memory_() | T.func.jacfwd(lambda a: a)(i)
T.func.jacfwd(lambda a: a, randomness=1)(x) | F.rms_norm(s, (3,)) | F.batch_norm(x, None, None, training=True, eps=0)
F.embedding_bag(i[:, 0], x, i[0, :1], mode='sum', per_sample_weights=x.double()[:, 0]) | T.arange(1 << 63)
F.huber_loss(i, x.double()) | x.bool().topk(1) | T.renorm(x, 2, 0, float('nan')) | T.histogram(x, True)
T.nn.RNN(3, True) | T.nn.Bilinear(x, 3, 4)
F.interpolate(x[None], scale_factor=float('nan'))
x.sum(0, axis=1) | x.sum(dim=0, axis=1) | x.sum(0, True, keepdims=True) | x.argmax(0, axis=0) | x.cumsum(0, axis=1)
x.softmax(1, axis=0) | x.squeeze(0, axis=1) | x.size(False) | x.size(True) | T.pdist(x, float('nan'))
x.to_dense(masked_grad=i) | x.to_dense(masked_grad='a') | T.trace(T.tensor(True)) | T.trace(T.tensor(1.0))
T.testing.make_tensor((2,), dtype=T.float32, device='cpu', requires_grad=(1,))
F.batch_norm(x, x[0].clone().requires_grad_(), T.ones(3), training=True)
x.add_(x, alpha=True) | x.sub_(x, alpha=False) | T.add(i, i, alpha=1 + 0j) | T.add(x, 1, alpha=1 + 0j)
T.addr(i, i[:, 0], i[0], alpha=1 + 0j) | T.arange(0, None) | T.arange(None, 5) | T.arange(1j) | T.arange(0, 3, 1j)
T.range(0, 1j) | T.where(x > 0, None, None) | T.where(x > 0, None) | T.trapezoid(x, dx=None) | T.trapezoid(x, dx=True)
T.cumulative_trapezoid(x, dx=False) | T.cumulative_trapezoid(x, dx=None) | T.mvlgamma(x, True)
T.mvlgamma(x, T.tensor([2])) | T.isclose(x, x, rtol=float('nan')) | T.allclose(x, x, atol=float('nan'))
F.smooth_l1_loss(x, x, beta=float('nan')) | T.cdist(x, x, float('nan')) | T.cdist(x, x, T.tensor([2.0]))
T.renorm(x, float('nan'), 0, 1) | T.renorm(x, 1j, 0, 1) | T.renorm(x, 2, 0, 1j) | T.renorm(x.to(T.complex64), 2, 0, 1j)
T.linalg.vector_norm(x, 1j) | T.norm(x, 1j) | T.histc(x, 3, 1j, 2) | x.std(correction=1j)
T.full((2,), T.tensor(2, device='meta')) | T.arange(T.tensor(2, device='meta')) | F.elu(x, T.tensor(2., device='meta'))
x.copy_(10**30) | i.copy_(1 << 64) | x.__contains__(np.bool_(True)) | x.__contains__(Exception)
T.isin(x.bool(), np.int64(1)) | T.add(x, x, 2) | x.add(x, 2) | x.add_(x, 2) | x.sub(x, 2) | x.addcmul(x, x, 2)
T.addmm(x, x, T.ones(3, 3), 2) | T.addmm(x, x, 2, T.ones(3, 3)) | T.arange(5, step=2) | T.arange(5, step=True)
x.to([i]) | x.to([T.float64]) | x.to((T.float64,)) | x.to(['cpu']) | T.device(np.int32(1))
T.ones(2, device=np.int64(0)) | T.nn.Linear(2, 2, device=np.int32(2)) | T.gradient(x, spacing=T.ones(3))
T.gradient(x, spacing=b'1') | T.gradient(x, spacing=[1.0, x[0]]) | T.gradient(x, spacing='a')
T.nanmean(x, dtype=int) | T.nanmean(x, dtype=T.int32) | T.repeat_interleave(x, T.tensor([[1]]))
F.local_response_norm(x[None], 0) | F.local_response_norm(x[None], -1)
T.quantile(x, [0.5]) | T.quantile(x, np.array(0.5)) | x.nanquantile('a') | F.poisson_nll_loss(x, 2.5)
F.triplet_margin_loss(x, x, x, p=None) | F.pairwise_distance(x, x, None) | T.pdist(x, None) | F.dropout(x, [0.5])
F.dropout(x, T.tensor([0.5])) | T.dropout(x, T.tensor(0.5, requires_grad=True), True) | F.dropout1d(x[None], None)
T.fft.fft2(x, s=[1, None]) | T.fft.fftn(x, s=[1.0]) | T.fft.hfft2(x, dim=[True]) | T.fft.fftshift(x, dim=[True])
T.nn.Conv2d(1, 1, 1, padding=(1,), padding_mode='circular')(x[None, None])
T.addmm(x, x, T.ones(3, 3), alpha=1e39) | T.addmv(x[0], T.ones(3, 3), x[0], beta=1e39)
x.half().addr(i[:, 0], i[0], beta=1e5) | x[1 << 63] | x[None, -(1 << 63) - 1] | x.__setitem__(1 << 63, 1)
x.__setitem__(([0], 1 << 63), 1.0) | T.xlogy(x, 1j) | T.special.xlog1py(x, 1j) | T.copysign(x, 1j)
x[:1, 0].view(True) | x[:1, 0].reshape(True) | x[:1, 0].view((True,)) | T.reshape(x[:1, 0], [True])
setattr(x, 'requires_grad', 1) | delattr(x, 'requires_grad') | x[:1, :1].view(True, 1)
x[:1, :1].reshape((True, -1)) | x[:0].view(False, 3) | x[::1.5] | x[::'a']
F.pad(x, (True, True)) | T.nn.ConstantPad1d(True, 0.0)(x) | T.nn.init.normal_(x, 0.0, float('nan'))
T.autograd.functional.jacobian(lambda a: a, [x]) | T.autograd.functional.vjp(lambda a: [a], x, x)
T.func.vmap(lambda a: a, chunk_size=1.0)(x) | T.nn.TripletMarginLoss(margin=0) | T.nn.TripletMarginLoss(margin=-1)
T.nn.TripletMarginWithDistanceLoss(margin=False) | T.optim.Adam([T.nn.Parameter(x)], betas=(0, 0.9))
T.nn.utils.get_total_norm([np.array(1)]) | T.func.vjp(lambda a: (a,), x)[1]((1,))
T.optim.lr_scheduler.CyclicLR(T.optim.SGD([T.nn.Parameter(x)], 0.1), 0.1, 1.0, scale_fn=False)
T.nn.LayerNorm(1.0, elementwise_affine=False) | T.nn.RMSNorm(None, elementwise_affine=False) | T.vmap(deep)(x)
T.unravel_index(i[0], 6.0) | F.hinge_embedding_loss(i, 2 * i - 1) | F.binary_cross_entropy_with_logits(i, x)
x.as_subclass(deep) | F.ctc_loss(x[:, None], i[:1], T.tensor([True]), (1,)) | F.ctc_loss(x[:, None], i[:1], [2.5], (1,))
F.ctc_loss(x[:, None], i[:1], ['2'], (1,)) | F.ctc_loss(x[:, None], i[:1], (2,), (True,)) | T.set_default_dtype(deep)
T.autograd.functional.jacobian(lambda a: a * 1j, x) | T.autograd.functional.hessian(lambda a: (a * a).sum(), x + 0j)
T.autograd.functional.hvp(lambda a: (a * a).sum(), x + 0j, x + 0j) | T.func.vmap(deep)(x)
T.full((2,), hour) | x.sum(hour) | T.nn.Linear(hour, 3) | T.add(x, hour) | x.clamp(hour) | x.fill_(hour) | x.roll(hour)
T.arange(hour) | T.nn.Embedding(hour, 3) | x.norm(hour) | T.addcmul(x, x, x, value=hour) | F.dropout(x, hour)
x.narrow(0, hour, 1) | T.linspace(0, hour, 3) | T.nn.RMSNorm(hour)
x.var(x.to_sparse()) | T.transpose_copy(x, x.to_sparse(), 0) | x.all(dim=1, keepdim=x.to_sparse())
x.amax(1, keepdim=x.to_sparse()) | x.narrow(x.to_sparse(), 0, 1) | F.pad(x, T.nested.nested_tensor([x, x]))
T.vmap(lambda a: a, 0, [['a']])(x) | T.vmap(lambda a: a, 0, [1.0])(x) | T.vmap(lambda a: a, 0, [None])(x)
T.func.functional_call(T.nn.Linear(3, 2), (None,), (x,)) | T.func.functional_call(T.nn.Linear(3, 2), ({}, 3), (x,))
attend(static_k=x)
"""
CALLS = [text.strip() for text in REFUSED.replace("\n", "|").split("|") if text.strip()]
HERE = (TypeError, ValueError, IndexError, RuntimeError, OverflowError)


def test_items_are_not_deleted():
    for library in (torch, plugrad):
        with pytest.raises(TypeError, match="does not support deleting items"):
            del library.ones(2)[0]


def stepped(library, **options):
    """Carry out a step of an optimizer some of whose options were set to something else since it was made."""
    optimizer = library.optim.SGD([library.nn.Parameter(library.ones(2))], 0.1, weight_decay=0.1)
    optimizer.param_groups[0].update(options)
    optimizer.param_groups[0]["params"][0].grad = library.ones(2)
    optimizer.step()


def outcome(text, library):
    x = library.ones(2, 3)
    names = {"x": x, "i": x.long(), "n": numpy.ones((1, 1, 2, 2)), "T": library, "F": library.nn.functional}
    names["deep"] = functools.reduce(lambda inner, _: [inner], range(5000), [])
    names["hour"] = numpy.timedelta64(1)
    names["attend"] = functools.partial(
        library.nn.functional.multi_head_attention_forward, *[x[None]] * 3, 3, 1, library.ones(9, 3), None, None, None,
        False, 0.0, library.ones(3, 3), None,
    )  # fmt: skip
    names["stepped"] = functools.partial(stepped, library)
    names["np"], names["s"] = numpy, (library.ones(2, requires_grad=True) * 2).sum()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return eval(text, names)
        except Exception as error:
            return error


@pytest.mark.parametrize("text", CALLS)
def test_refused(text):
    theirs, ours = outcome(text, torch), outcome(text, plugrad)
    assert isinstance(theirs, Exception), f"PyTorch takes it: {theirs!r}"
    assert isinstance(ours, type(theirs) if type(theirs) in HERE else HERE), f"{ours!r}, not {theirs!r}"
    assert len(str(ours)) > 10


def test_what_is_said_names_the_op_and_the_argument():
    error = outcome("x.cumsum('a')", plugrad)
    assert str(error) == "cumsum(): argument 'dim' (position 2) must be int, not str; write 1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("T.optim.Adam(T.nn.Linear(2, 2))", "for one tensor write [tensor], for a module module.parameters()"),
        ("T.optim.SGD([x], 'a')", "lr must be a number, not str"),
        ("T.randint(5)", "randint() takes a tuple of ints as its size: write randint(10, (2, 3))"),
        ("T.autograd.grad(3, x)", "expected Tensors or GradientEdges, got int"),
        ("T.randint_like(x)", "lacks the end of the range"),
        ("T.nn.Parameter([1.0])", "'list' object has no attribute 'detach': Parameter(data) takes a tensor as data"),
        ("T.nn.Buffer(3)", "'int' object has no attribute 'detach': Buffer(data) takes a tensor as data"),
        ("T.nn.Conv2d(3, 4)", "_Convolution.__init__() missing 1 required positional argument: 'kernel_size'"),
        ("T.tensor([1, [2]])", "numbers and sequences are mixed at dim 1: write rows of the same kind"),
    ],
)
def test_what_is_said_tells_what_to_write(text, said):
    assert said in str(outcome(text, plugrad))
    assert type(outcome(text, plugrad)) is type(outcome(text, torch))


TAKEN = """
x.sum((0, True)) | T.zeros(2, True) | x.clamp(True) | x.fill_(True) | T.zeros(T.tensor(2)) | x.sum(T.tensor(0))
x.sum(np.int64(0)) | T.zeros(np.int32(2)) | np.float64(2) * x | np.float32(2) + i | np.int64(2) - i
2 * x * np.float64(2) | x + np.ones(3) | np.float64(2) < x | x == np.ones(3) | T.zeros(2, dtype=float)
T.add(2, x) | T.sub(2, i) | T.mul(2, 3) | T.add(2, 3.5) | T.div(7, 2) | T.div(7, 2, rounding_mode='floor')
T.floor_divide(7, 2) | T.add(2, 3, alpha=2) | T.Size((True, 2)) | T.Size([T.tensor(2)]) | x.shape + (1,)
T.add(np.float64(2), x) | T.prelu(x, T.tensor([float('nan')])) | T.diagonal_scatter(x.half(), x[0, :2]) | T.typename(3)
T.nn.L1Loss(size_average=0)(x, 2 * x) | x.to(T.complex64).type() | T.lu_unpack(T.ones(2, 1, 1), T.ones(1).int())[0]
T.triangular_solve(T.ones(2, 3, 2), T.eye(3))[1] | T.nn.LayerNorm(3, elementwise_affine=None)(x)
F.dropout(x, True) | x.norm(True) | x.to(None) | f'{T.tensor(1.5)}' | T.full((2,), True)
F.hardshrink(x, T.tensor(2, dtype=T.uint8)) | F.softshrink(x, T.tensor(True)) | T.add(x, x, alpha=T.tensor(2))
F.huber_loss(x, 3 * x, delta=T.tensor(1, dtype=T.uint8)) | T.mvlgamma(3 * x, T.tensor(2, dtype=T.uint8))
F.smooth_l1_loss(x, 4 * x, beta=T.tensor(2, dtype=T.uint8)) | T.trapezoid(x, dx=T.tensor(1.5, dtype=T.float64))
T.addcmul(x + 0j, x, x, value=T.tensor(1.5, dtype=T.float64)) | T.addcdiv(x + 0j, x, x, value=T.tensor(2))
T.isin(x, np.float32(1)) | T.isin(np.int64(2), i) | np.float32(1) in x | np.int64(2) in i | T.arange(3 + 0j)
x.copy_(1e300) | x.copy_(2 + 1j) | i.copy_(1.7) | i.copy_(-1.7) | i.to(T.int8).copy_(300) | i.to(T.uint8).copy_(-1)
i.to(T.int8).copy_(float('nan')) | i.bool().copy_(1j) | x.bfloat16().copy_(1 << 63) | i.copy_(1 << 63)
x.long().copy_(np.float64(2.5)) | F.elu(-x, 1 + 0j) | x.std(correction=1 + 0j)
T.polygamma(300, 0.5 * x) | T.add(x + 0j, 2, alpha=1 << 62) | T.add(x, 2, x) | x.add(2, x) | x.addcmul(2, x, x)
T.addmm(2, x[:, :2], x[:, :2], x[:, :2]) | x[:, :2].addmm(2, 3, x[:, :2], x[:, :2]) | x.to(T.tensor(1)) | x.to(float)
T.gradient(x.cumsum(1), spacing=np.float64(2))[1] | T.gradient(i.cumsum(1), spacing=0)[1] | F.dropout(x, T.tensor(1.0))
x[:1, :1].view(1, True) | x[:, ::T.tensor(2)] | x[::np.int64(2)] | T.nn.GroupNorm(1, 3, affine=None)(x)
T.nn.GroupNorm(1, 3, bias=None)(x.cumsum(1))
T.gradient(x.cumsum(1) ** 2, spacing=2.5, dim=1, edge_order=2)[0] | T.randint_like(x, 1, dtype=float)
T.unravel_index(i[0], 6)[0] | F.hinge_embedding_loss(i, 1 - 2 * i, margin=2.5, reduction='none')
"""


@pytest.mark.parametrize("text", [text.strip() for text in TAKEN.replace("\n", "|").split("|") if text.strip()])
def test_taken(text):
    results = []
    for library in (torch, plugrad):
        x = library.ones(2, 3)
        names = {"x": x, "i": x.long(), "np": numpy, "T": library, "F": library.nn.functional}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = eval(text, names)
        tensor = hasattr(result, "dtype")
        results.append((str(result.dtype), tuple(result.shape), result.tolist()) if tensor else result)
    assert results[0] == results[1]


def test_a_numpy_scalar_on_the_left_keeps_the_gradient():
    w = plugrad.ones(2, requires_grad=True)
    (numpy.float64(3) * w).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("name", ["jit", "onnx", "fx", "hub", "xpu"])
def test_absent_modules_of_pytorch_say_so(name):
    if hasattr(plugrad, name):
        pytest.skip("it is here now")
    with pytest.raises(AttributeError, match=f"torch.{name}, a module"):
        getattr(plugrad, name)


@pytest.mark.parametrize("name", ["arange", "eye", "ones", "hann_window", "signal.windows.hann"])
def test_another_layout_is_refused_where_a_tensor_is_created(name):
    makers = [operator.attrgetter(name)(library) for library in (torch, plugrad)]
    dense = [maker(3, layout=library.strided) for maker, library in zip(makers, (torch, plugrad), strict=True)]
    numpy.testing.assert_allclose(dense[1].numpy(), dense[0].numpy(), rtol=1e-6)
    for layouts in ((torch.sparse_coo, plugrad.sparse_coo), (3, 3)):
        errors = []
        for maker, layout in zip(makers, layouts, strict=True):
            with pytest.raises((RuntimeError, ValueError, TypeError)) as caught:
                maker(3, layout=layout)
            errors.append(caught.type)
        assert issubclass(errors[1], errors[0])


def test_names_are_offered_where_they_are_near():
    with pytest.raises(AttributeError, match="did you mean 'softmax'"):
        getattr(plugrad, "sofmax")  # noqa: B009
    with pytest.raises(AttributeError) as caught:
        getattr(plugrad, "exporting")  # noqa: B009
    assert "did you mean" not in str(caught.value)


NUMBERS_OF_OTHERS = {
    "pooling by one of NumPy's": lambda T, x: T.nn.AvgPool2d(numpy.int64(2))(x),
    "a stride of NumPy's": lambda T, x: T.nn.functional.max_pool2d(x, 2, numpy.int64(1)),
    "bins in a tensor": lambda T, x: T.histogramdd(x[0, 0, :, :2], T.tensor(3)).hist,
    "bins of NumPy's": lambda T, x: T.histogramdd(x[0, 0, :, :2], numpy.int64(3)).hist,
    "bins of several dimensions in a tensor": lambda T, x: T.histogramdd(x[0, 0, :, :2], T.tensor([3, 2])).hist,
    "bins as a float": lambda T, x: T.histogramdd(x[0, 0, :, :2], 3.0).hist,
    "a mode that is a float": lambda T, x: T.hash_tensor(x, 0, mode=0.0).long(),
    "several modes": lambda T, x: T.hash_tensor(x, 0, mode=T.tensor([0, 1])).long(),
    "the cosine of complex numbers": lambda T, x: T.cosine_similarity(x, x.to(T.complex64)),
    "no elements for a kernel to move along": lambda T, x: T.conv1d(x[:, 0, :, :0], T.ones(5, 5, 1), padding=1),
    "none to move along backwards": lambda T, x: T.conv_transpose2d(x[:, :, :0], T.ones(2, 3, 2, 2, dtype=x.dtype)),
    "an empty batch": lambda T, x: T.conv_transpose2d(x[:0], T.ones(2, 3, 2, 2, dtype=x.dtype)),
    "in place by a number": lambda T, x: repr(T.nn.Hardtanh(-1, 1, 3)) + repr(T.nn.ReLU6(3)),
    "a state of numbers": lambda T, x: T.optim.SGD([T.nn.Parameter(x)], 0.1).load_state_dict([x, None]),
}


@pytest.mark.parametrize("name", NUMBERS_OF_OTHERS)
def test_numbers_that_are_not_pythons(name):
    found = []
    for T in (torch, plugrad):
        try:
            value = NUMBERS_OF_OTHERS[name](T, T.linspace(-1, 2, 40, dtype=T.float64).view(1, 2, 5, 4))
            found.append(value if isinstance(value, str) else value.tolist())
        except (TypeError, RuntimeError) as error:
            found.append(type(error))
    if isinstance(found[0], list):
        numpy.testing.assert_allclose(found[1], found[0], atol=1e-12)
    else:
        assert found[1] == found[0]
