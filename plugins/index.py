"""What the plugins of the group `plugrad` bring: ops, public names, and names that have in-place forms.

Written by `python -m plugrad.cli.names_index`. So `import plugrad` loads none of them: a plugin is loaded when one of
its names is first used.
"""

BRINGS = {
    "plugrad.plugins.losses.binary": (
        "bce bce_logits binary_cross_entropy binary_cross_entropy_with_logits multilabel_soft_margin_loss soft_margin "
        "soft_margin_loss",
        "nn.BCELoss nn.BCEWithLogitsLoss nn.MultiLabelSoftMarginLoss nn.SoftMarginLoss "
        "nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits "
        "nn.functional.multilabel_soft_margin_loss nn.functional.soft_margin_loss",
    ),
    "plugrad.plugins.losses.classification": (
        "cross_entropy cross_entropy_grad cross_entropy_labels cross_entropy_mass nll nll_grad nll_loss",
        "nn.CrossEntropyLoss nn.NLLLoss nn.NLLLoss2d nn.functional.cross_entropy nn.functional.nll_loss",
    ),
    "plugrad.plugins.losses.ctc": ("ctc ctc_grad ctc_loss", "nn.CTCLoss nn.functional.ctc_loss"),
    "plugrad.plugins.losses.linear_cross_entropy": (
        "linear_cross_entropy",
        "nn.LinearCrossEntropyLoss nn.functional.linear_cross_entropy",
    ),
    "plugrad.plugins.losses.ranking": (
        "cosine_embedding_loss hinge_embedding_loss label_counts margin_ranking_loss multi_margin_loss "
        "multilabel_margin_loss triplet_margin_loss triplet_margin_with_distance_loss",
        "nn.CosineEmbeddingLoss nn.HingeEmbeddingLoss nn.MarginRankingLoss nn.MultiLabelMarginLoss nn.MultiMarginLoss "
        "nn.TripletMarginLoss nn.TripletMarginWithDistanceLoss nn.functional.cosine_embedding_loss "
        "nn.functional.hinge_embedding_loss nn.functional.margin_ranking_loss nn.functional.multi_margin_loss "
        "nn.functional.multilabel_margin_loss nn.functional.triplet_margin_loss "
        "nn.functional.triplet_margin_with_distance_loss",
    ),
    "plugrad.plugins.losses.regression": (
        "gaussian_nll_loss huber huber_loss kl_div l1 l1_loss mse mse_loss poisson_nll_loss smooth_l1_loss",
        "nn.GaussianNLLLoss nn.HuberLoss nn.KLDivLoss nn.L1Loss nn.MSELoss nn.PoissonNLLLoss nn.SmoothL1Loss "
        "nn.functional.gaussian_nll_loss nn.functional.huber_loss nn.functional.kl_div nn.functional.l1_loss "
        "nn.functional.mse_loss nn.functional.poisson_nll_loss nn.functional.smooth_l1_loss",
    ),
    "plugrad.plugins.ops.activation": (
        "elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish prelu prelu_elements relu "
        "sigmoid silu softplus softshrink softsign tanhshrink threshold",
        "Tensor.hardshrink Tensor.prelu Tensor.relu Tensor.sigmoid hardshrink nn.functional.gelu "
        "nn.functional.hardshrink nn.functional.logsigmoid nn.functional.prelu nn.functional.sigmoid "
        "nn.functional.softplus nn.functional.softshrink nn.functional.softsign nn.functional.tanhshrink prelu relu "
        "sigmoid special.expit",
        "elu hardsigmoid hardswish hardtanh leaky_relu mish relu sigmoid silu threshold",
    ),
    "plugrad.plugins.ops.addmm": (
        "addbmm addbmm_ addmm addmv addr baddbmm grouped_mm",
        "Tensor.addbmm Tensor.addbmm_ Tensor.addmm Tensor.addmv Tensor.addr Tensor.baddbmm addbmm addmm addmv addr "
        "baddbmm nn.functional.grouped_mm",
        "addmm addmv addr baddbmm",
    ),
    "plugrad.plugins.ops.arithmetic": (
        "abs add addcmul lerp mul neg positive rsub sub",
        "Tensor.abs Tensor.absolute Tensor.add Tensor.addcmul Tensor.lerp Tensor.mul Tensor.multiply Tensor.neg "
        "Tensor.negative Tensor.positive Tensor.sub Tensor.subtract abs absolute add addcmul lerp mul multiply neg "
        "negative positive rsub sub subtract",
        "abs absolute add addcmul lerp mul multiply neg negative sub subtract",
    ),
    "plugrad.plugins.ops.average_pooling": (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d avg_pool avg_pool1d avg_pool2d avg_pool3d "
        "avg_unpool",
        "adaptive_avg_pool1d avg_pool1d nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d "
        "nn.functional.adaptive_avg_pool3d nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.avg_pool3d",
    ),
    "plugrad.plugins.ops.bessel": (
        "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 i0 i0e i1 i1e modified_bessel_i0 modified_bessel_i1 "
        "modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 "
        "spherical_bessel_j0",
        "Tensor.i0 i0 special.airy_ai special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1 "
        "special.i0 special.i0e special.i1 special.i1e special.modified_bessel_i0 special.modified_bessel_i1 "
        "special.modified_bessel_k0 special.modified_bessel_k1 special.scaled_modified_bessel_k0 "
        "special.scaled_modified_bessel_k1 special.spherical_bessel_j0",
        "i0",
    ),
    "plugrad.plugins.ops.bitwise": (
        "bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor gcd hash_tensor invert "
        "lcm",
        "Tensor.bitwise_and Tensor.bitwise_left_shift Tensor.bitwise_not Tensor.bitwise_or Tensor.bitwise_right_shift "
        "Tensor.bitwise_xor Tensor.gcd Tensor.hash_tensor Tensor.lcm bitwise_and bitwise_left_shift bitwise_not "
        "bitwise_or bitwise_right_shift bitwise_xor gcd hash_tensor lcm",
        "bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor gcd lcm",
    ),
    "plugrad.plugins.ops.comparison": (
        "allclose eq equal ge gt isclose isclose_elements isfinite isinf isnan isneginf isposinf isreal le "
        "logical_and logical_not logical_or logical_xor lt ne",
        "Tensor.allclose Tensor.eq Tensor.equal Tensor.ge Tensor.greater Tensor.greater_equal Tensor.gt "
        "Tensor.isclose Tensor.isfinite Tensor.isinf Tensor.isnan Tensor.isneginf Tensor.isposinf Tensor.isreal "
        "Tensor.le Tensor.less Tensor.less_equal Tensor.logical_and Tensor.logical_not Tensor.logical_or "
        "Tensor.logical_xor Tensor.lt Tensor.ne Tensor.not_equal allclose eq equal ge greater greater_equal gt "
        "isclose isfinite isinf isnan isneginf isposinf isreal le less less_equal logical_and logical_not logical_or "
        "logical_xor lt ne not_equal",
        "eq ge greater greater_equal gt le less less_equal logical_and logical_not logical_or logical_xor lt ne "
        "not_equal",
    ),
    "plugrad.plugins.ops.conjugation": (
        "angle angle_of_complex angle_of_real conj conj_physical conj_physical_in_place conjugated resolve_conj "
        "resolve_neg",
        "Tensor.angle Tensor.conj Tensor.conj_physical Tensor.conj_physical_ Tensor.resolve_conj Tensor.resolve_neg "
        "angle conj conj_physical resolve_conj resolve_neg",
    ),
    "plugrad.plugins.ops.conv": (
        "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution",
        "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution "
        "nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_tbc "
        "nn.functional.conv_transpose1d nn.functional.conv_transpose2d nn.functional.conv_transpose3d",
    ),
    "plugrad.plugins.ops.conversion": (
        "bfloat16 bool byte cdouble cfloat chalf char cpu cuda double float half int long short to to_copy type "
        "type_as",
        "Tensor.bfloat16 Tensor.bool Tensor.byte Tensor.cdouble Tensor.cfloat Tensor.chalf Tensor.char Tensor.cpu "
        "Tensor.cuda Tensor.double Tensor.float Tensor.half Tensor.int Tensor.long Tensor.short Tensor.to Tensor.type "
        "Tensor.type_as",
    ),
    "plugrad.plugins.ops.convolution_kernels": ("channel_sum convolve convolve_weight_grad", ""),
    "plugrad.plugins.ops.copies": (
        "alias_copy as_strided_copy as_strided_scatter detach_copy diagonal_copy empty_permuted expand_copy "
        "narrow_copy permute_copy select_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy "
        "unbind_copy unfold_copy unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze_copy "
        "view_as_complex_copy view_as_real_copy view_copy",
        "Tensor.as_strided_scatter Tensor.narrow_copy Tensor.unsafe_chunk Tensor.unsafe_split "
        "Tensor.unsafe_split_with_sizes alias_copy as_strided_copy as_strided_scatter detach_copy diagonal_copy "
        "empty_permuted expand_copy narrow_copy permute_copy select_copy split_copy split_with_sizes_copy "
        "squeeze_copy t_copy transpose_copy unbind_copy unfold_copy unsafe_chunk unsafe_split unsafe_split_with_sizes "
        "unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy",
    ),
    "plugrad.plugins.ops.counting": (
        "bincount consecutive_parts histc isin isin_elements nonzero nonzero_rows unique unique_consecutive "
        "unique_parts",
        "Tensor.argwhere Tensor.bincount Tensor.histc Tensor.nonzero Tensor.unique Tensor.unique_consecutive argwhere "
        "bincount histc isin nonzero unique unique_consecutive",
    ),
    "plugrad.plugins.ops.creation": (
        "arange closed_range empty empty_like empty_strided eye full full_like linspace logspace new_empty "
        "new_empty_strided new_full new_ones new_tensor new_zeros ones ones_like scalar_tensor zeros zeros_like",
        "Tensor.new_empty Tensor.new_empty_strided Tensor.new_full Tensor.new_ones Tensor.new_tensor Tensor.new_zeros "
        "arange empty empty_like empty_strided eye full full_like linspace logspace ones ones_like range "
        "scalar_tensor zeros zeros_like",
    ),
    "plugrad.plugins.ops.cumulative": (
        "affine_scan cummax cummin cumprod cumsum logcumsumexp",
        "Tensor.cummax Tensor.cummin Tensor.cumprod Tensor.cumsum Tensor.logcumsumexp cummax cummin cumprod cumsum "
        "logcumsumexp",
        "cumprod cumsum",
    ),
    "plugrad.plugins.ops.differences": (
        "cumulative_trapezoid diff gradient trapezoid",
        "Tensor.diff cumulative_trapezoid diff gradient trapezoid trapz",
    ),
    "plugrad.plugins.ops.distances": (
        "cdist cosine_similarity euclidean_distances pairwise_distance pdist",
        "Tensor.cdist cdist cosine_similarity nn.functional.cosine_similarity nn.functional.pairwise_distance "
        "nn.functional.pdist pairwise_distance pdist",
    ),
    "plugrad.plugins.ops.division": (
        "addcdiv div div_floor div_rounded div_trunc floor_divide fmod rdiv reciprocal remainder",
        "Tensor.__rdiv__ Tensor.addcdiv Tensor.div Tensor.divide Tensor.floor_divide Tensor.fmod Tensor.reciprocal "
        "Tensor.remainder Tensor.true_divide addcdiv div divide floor_divide fmod reciprocal remainder true_divide",
        "addcdiv div div_rounded divide floor_divide fmod reciprocal remainder true_divide",
    ),
    "plugrad.plugins.ops.dropout": (
        "alpha_dropout dropout dropout1d dropout2d dropout3d dropout_legacy dropout_mask explicit_alpha_dropout "
        "explicit_feature_alpha_dropout feature_alpha_dropout feature_dropout",
        "alpha_dropout dropout feature_alpha_dropout feature_dropout nn.functional.alpha_dropout "
        "nn.functional.dropout nn.functional.dropout1d nn.functional.dropout2d nn.functional.dropout3d "
        "nn.functional.feature_alpha_dropout",
    ),
    "plugrad.plugins.ops.einsum": (
        "chain_matmul contract einsum multi_dot tensordot",
        "chain_matmul einsum linalg.multi_dot tensordot",
    ),
    "plugrad.plugins.ops.embedding": (
        "embedding embedding_grad embedding_weighted functional_embedding one_hot",
        "embedding nn.functional.embedding nn.functional.one_hot",
    ),
    "plugrad.plugins.ops.embedding_bag": ("embedding_bag", "nn.functional.embedding_bag"),
    "plugrad.plugins.ops.erf": (
        "entr erf erfc erfcx erfinv log_ndtr ndtr ndtri",
        "Tensor.erf Tensor.erfc Tensor.erfinv erf erfc erfinv special.entr special.erf special.erfc special.erfcx "
        "special.erfinv special.log_ndtr special.ndtr special.ndtri",
        "erf erfc erfinv",
    ),
    "plugrad.plugins.ops.exponential": (
        "exp exp2 expm1 log log10 log1p log2 logaddexp logaddexp2 logit xlog1py xlogy",
        "Tensor.exp Tensor.exp2 Tensor.expm1 Tensor.log Tensor.log10 Tensor.log1p Tensor.log2 Tensor.logaddexp "
        "Tensor.logaddexp2 Tensor.logit Tensor.xlogy exp exp2 expm1 log log10 log1p log2 logaddexp logaddexp2 logit "
        "special.exp2 special.expm1 special.log1p special.logit special.xlog1py special.xlogy xlogy",
        "exp exp2 expm1 log log10 log1p log2 logit xlogy",
    ),
    "plugrad.plugins.ops.extremes": (
        "amax amin aminmax argmax argmin max max_all max_of min min_all min_of put_one",
        "Tensor.amax Tensor.amin Tensor.aminmax Tensor.argmax Tensor.argmin Tensor.max Tensor.min amax amin aminmax "
        "argmax argmin max min",
    ),
    "plugrad.plugins.ops.factorizations": (
        "cholesky geqrf linalg_cholesky linalg_cholesky_ex linalg_householder_product linalg_qr orgqr qr",
        "Tensor.cholesky Tensor.geqrf Tensor.orgqr Tensor.qr cholesky geqrf linalg.cholesky linalg.cholesky_ex "
        "linalg.householder_product linalg.qr orgqr qr",
    ),
    "plugrad.plugins.ops.filling": (
        "bernoulli_in_place bernoulli_like cauchy copy exponential fill fill_diagonal_ fill_in_place geometric "
        "log_normal normal_in_place normal_like random uniform zero zero_in_place",
        "Tensor.bernoulli_ Tensor.fill_diagonal_ Tensor.normal_ fill fill_ zero_",
        "cauchy copy exponential fill geometric log_normal random uniform zero",
    ),
    "plugrad.plugins.ops.fold": ("col2im fold im2col unfold_blocks", "nn.functional.fold nn.functional.unfold"),
    "plugrad.plugins.ops.fourier": (
        "fft fft2 fft_c2c fft_c2r fft_r2c fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft "
        "ihfft2 ihfftn irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn",
        "fft.fft fft.fft2 fft.fftfreq fft.fftn fft.fftshift fft.hfft fft.hfft2 fft.hfftn fft.ifft fft.ifft2 fft.ifftn "
        "fft.ifftshift fft.ihfft fft.ihfft2 fft.ihfftn fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 "
        "fft.rfftfreq fft.rfftn",
    ),
    "plugrad.plugins.ops.fractional_pooling": (
        "fractional_argmax fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d "
        "fractional_max_pool3d_with_indices",
        "nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool2d_with_indices "
        "nn.functional.fractional_max_pool3d nn.functional.fractional_max_pool3d_with_indices",
    ),
    "plugrad.plugins.ops.functional_activation": (
        "functional_celu functional_celu_ functional_elu functional_elu_ functional_hardsigmoid functional_hardswish "
        "functional_hardtanh functional_hardtanh_ functional_leaky_relu functional_leaky_relu_ functional_mish "
        "functional_relu functional_relu6 functional_relu_ functional_rrelu functional_rrelu_ functional_selu "
        "functional_selu_ functional_silu functional_threshold functional_threshold_ random_slopes",
        "celu celu_ nn.functional.celu nn.functional.celu_ nn.functional.elu nn.functional.elu_ "
        "nn.functional.hardsigmoid nn.functional.hardswish nn.functional.hardtanh nn.functional.hardtanh_ "
        "nn.functional.leaky_relu nn.functional.leaky_relu_ nn.functional.mish nn.functional.relu nn.functional.relu6 "
        "nn.functional.relu_ nn.functional.rrelu nn.functional.rrelu_ nn.functional.selu nn.functional.selu_ "
        "nn.functional.silu nn.functional.threshold nn.functional.threshold_ relu_ rrelu rrelu_ selu selu_ threshold "
        "threshold_",
        "functional_threshold",
    ),
    "plugrad.plugins.ops.gamma": (
        "digamma lgamma mvlgamma polygamma polygamma_method zeta",
        "Tensor.digamma Tensor.lgamma Tensor.mvlgamma Tensor.polygamma digamma lgamma mvlgamma polygamma "
        "special.digamma special.gammaln special.multigammaln special.polygamma special.psi special.zeta",
        "digamma lgamma mvlgamma polygamma polygamma_method",
    ),
    "plugrad.plugins.ops.grid_sample": (
        "add_points affine_grid affine_grid_generator grid_sample grid_sampler grid_sampler_2d grid_sampler_3d "
        "sample_images take_points",
        "affine_grid_generator grid_sampler grid_sampler_2d grid_sampler_3d nn.functional.affine_grid "
        "nn.functional.grid_sample",
    ),
    "plugrad.plugins.ops.incomplete_gamma": (
        "igamma igammac",
        "Tensor.igamma Tensor.igammac igamma igammac special.gammainc special.gammaincc",
        "igamma igammac",
    ),
    "plugrad.plugins.ops.indexing": (
        "add_at advanced_index basic_index getitem index_by index_put setitem",
        "Tensor.index_put index_put",
        "index_put",
    ),
    "plugrad.plugins.ops.joining": (
        "atleast_1d atleast_2d atleast_3d broadcast_tensors cat column_stack concat dstack hstack stack vstack",
        "atleast_1d atleast_2d atleast_3d broadcast_tensors cat column_stack concat concatenate dstack hstack "
        "row_stack stack vstack",
    ),
    "plugrad.plugins.ops.ldl": (
        "linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve ormqr",
        "Tensor.ormqr linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve ormqr",
    ),
    "plugrad.plugins.ops.least_squares": (
        "linalg_lstsq linalg_pinv pinverse",
        "Tensor.pinverse linalg.lstsq linalg.pinv pinverse",
    ),
    "plugrad.plugins.ops.linalg": (
        "adjugate cross det linalg_cross linalg_det linalg_diagonal linalg_matrix_exp linalg_matrix_power "
        "linalg_slogdet linalg_vander linalg_vecdot logdet slogdet vander",
        "Tensor.cross Tensor.det Tensor.logdet Tensor.matrix_exp Tensor.matrix_power Tensor.slogdet cross det "
        "linalg.cross linalg.det linalg.diagonal linalg.matrix_exp linalg.matrix_power linalg.slogdet linalg.vander "
        "linalg.vecdot logdet matrix_exp matrix_power slogdet vander",
    ),
    "plugrad.plugins.ops.linear": (
        "attend bilinear linear scaled_dot_product_attention",
        "bilinear nn.functional.bilinear nn.functional.linear nn.functional.scaled_dot_product_attention",
    ),
    "plugrad.plugins.ops.lu": (
        "_lu_with_info linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve lu lu_method lu_solve lu_unpack "
        "permutation_rows take_rows",
        "Tensor.lu Tensor.lu_solve _lu_with_info linalg.lu linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve lu "
        "lu_solve lu_unpack",
    ),
    "plugrad.plugins.ops.masked_indexing": (
        "masked_fill masked_scatter masked_select put take",
        "Tensor.masked_fill Tensor.masked_scatter Tensor.masked_select Tensor.put Tensor.take masked_fill "
        "masked_scatter masked_select put take",
        "masked_fill masked_scatter put",
    ),
    "plugrad.plugins.ops.masked_reductions": (
        "masked_amax masked_amin masked_argmax masked_argmin masked_cumprod masked_cumsum masked_log_softmax "
        "masked_logaddexp masked_logsumexp masked_mean masked_median masked_norm masked_normalize masked_prod "
        "masked_softmax masked_softmin masked_std masked_sum masked_var",
        "masked.amax masked.amin masked.argmax masked.argmin masked.cumprod masked.cumsum masked.log_softmax "
        "masked.logaddexp masked.logsumexp masked.mean masked.median masked.norm masked.normalize masked.prod "
        "masked.softmax masked.softmin masked.std masked.sum masked.var",
    ),
    "plugrad.plugins.ops.matmul": (
        "bmm dot inner matmul mm mv outer vdot",
        "Tensor.bmm Tensor.dot Tensor.ger Tensor.inner Tensor.matmul Tensor.mm Tensor.mv Tensor.outer Tensor.vdot bmm "
        "dot ger inner linalg.matmul matmul mm mv outer vdot",
    ),
    "plugrad.plugins.ops.matrices": (
        "block_diag cartesian_prod combinations complex diag diag_embed diagflat kron meshgrid polar tril "
        "tril_indices triu triu_indices",
        "Tensor.combinations Tensor.diag Tensor.diag_embed Tensor.diagflat Tensor.kron Tensor.tril Tensor.triu "
        "block_diag cartesian_prod combinations complex diag diag_embed diagflat kron meshgrid polar tril "
        "tril_indices triu triu_indices",
        "tril triu",
    ),
    "plugrad.plugins.ops.max_pooling": (
        "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d max_pool max_pool1d max_pool2d max_pool3d "
        "max_pool_grad max_pool_select max_pool_with_indices",
        "max_pool1d max_pool2d max_pool3d nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool2d "
        "nn.functional.adaptive_max_pool3d nn.functional.max_pool1d nn.functional.max_pool2d nn.functional.max_pool3d",
    ),
    "plugrad.plugins.ops.multi_head_attention": (
        "multi_head_attention_forward",
        "nn.functional.multi_head_attention_forward",
    ),
    "plugrad.plugins.ops.normalization": (
        "batch_norm group_norm instance_norm layer_norm local_response_norm native_batch_norm native_group_norm "
        "native_layer_norm normalize rms_norm",
        "group_norm layer_norm native_batch_norm native_group_norm native_layer_norm nn.functional.batch_norm "
        "nn.functional.group_norm nn.functional.instance_norm nn.functional.layer_norm "
        "nn.functional.local_response_norm nn.functional.normalize nn.functional.rms_norm rms_norm",
    ),
    "plugrad.plugins.ops.normalization_kernels": (
        "_running_average normalize_affine normalize_by normalize_rows",
        "",
        "_running_average",
    ),
    "plugrad.plugins.ops.order_statistics": (
        "median median_all median_of mode nanmedian nanmedian_all nanmedian_of nanquantile quantile",
        "Tensor.median Tensor.mode Tensor.nanmedian Tensor.nanquantile Tensor.quantile median mode nanmedian "
        "nanquantile quantile",
    ),
    "plugrad.plugins.ops.padding": ("constant_pad_nd pad pad_copy pad_copy_grad", "constant_pad_nd nn.functional.pad"),
    "plugrad.plugins.ops.polynomials": (
        "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
        "hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p "
        "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
        "shifted_chebyshev_polynomial_w",
        "special.chebyshev_polynomial_t special.chebyshev_polynomial_u special.chebyshev_polynomial_v "
        "special.chebyshev_polynomial_w special.hermite_polynomial_h special.hermite_polynomial_he "
        "special.laguerre_polynomial_l special.legendre_polynomial_p special.shifted_chebyshev_polynomial_t "
        "special.shifted_chebyshev_polynomial_u special.shifted_chebyshev_polynomial_v "
        "special.shifted_chebyshev_polynomial_w",
    ),
    "plugrad.plugins.ops.positions": (
        "fit_size nonzero_static resize_ resize_as_ unravel_index",
        "Tensor.nonzero_static Tensor.resize_ Tensor.resize_as_ nonzero_static resize_as_ unravel_index",
    ),
    "plugrad.plugins.ops.powers": (
        "float_power float_power_in_place pow rsqrt sqrt square",
        "Tensor.float_power Tensor.float_power_ Tensor.pow Tensor.rsqrt Tensor.sqrt Tensor.square float_power pow "
        "rsqrt sqrt square",
        "pow rsqrt sqrt square",
    ),
    "plugrad.plugins.ops.random": (
        "bernoulli coins normal normal_around normal_sized rand rand_like randint randint_like randint_sized randn "
        "randn_like randperm",
        "Tensor.bernoulli bernoulli normal rand rand_like randint randint_like randn randn_like randperm",
    ),
    "plugrad.plugins.ops.recurrent": ("gru_sequence lstm_sequence rnn_sequence", ""),
    "plugrad.plugins.ops.reduction": (
        "all any count_nonzero logsumexp mean nanmean nansum prod sum trace",
        "Tensor.all Tensor.any Tensor.count_nonzero Tensor.logsumexp Tensor.mean Tensor.nanmean Tensor.nansum "
        "Tensor.prod Tensor.sum Tensor.trace all any count_nonzero logsumexp mean nanmean nansum prod "
        "special.logsumexp sum trace",
    ),
    "plugrad.plugins.ops.repeating": (
        "arranged clone contiguous flip fliplr flipud interleave interleave_index repeat repeat_interleave roll rot90 "
        "tile",
        "Tensor.clone Tensor.contiguous Tensor.flip Tensor.fliplr Tensor.flipud Tensor.repeat "
        "Tensor.repeat_interleave Tensor.roll Tensor.rot90 Tensor.tile clone flip fliplr flipud repeat_interleave "
        "roll rot90 tile",
    ),
    "plugrad.plugins.ops.resample": (
        "interpolate resample resample_grad upsample upsample_bilinear upsample_nearest",
        "nn.functional.interpolate nn.functional.upsample nn.functional.upsample_bilinear "
        "nn.functional.upsample_nearest",
    ),
    "plugrad.plugins.ops.rounding": (
        "ceil copysign floor frac frexp heaviside ldexp nan_to_num nextafter round sgn sign signbit trunc",
        "Tensor.ceil Tensor.copysign Tensor.fix Tensor.floor Tensor.frac Tensor.frexp Tensor.heaviside Tensor.ldexp "
        "Tensor.nan_to_num Tensor.nextafter Tensor.round Tensor.sgn Tensor.sign Tensor.signbit Tensor.trunc ceil "
        "copysign fix floor frac frexp heaviside ldexp nan_to_num nextafter round sgn sign signbit special.round "
        "trunc",
        "ceil copysign fix floor frac heaviside ldexp nan_to_num nextafter round sgn sign trunc",
    ),
    "plugrad.plugins.ops.sampling": (
        "binomial dirichlet_grad dirichlet_samples gamma_samples multinomial poisson sample_dirichlet standard_gamma "
        "standard_gamma_grad",
        "Tensor.multinomial _dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad binomial "
        "multinomial poisson",
    ),
    "plugrad.plugins.ops.scattering": (
        "diagonal_scatter gather index_reduce scatter scatter_add scatter_reduce select_scatter slice_scatter "
        "take_along_dim",
        "Tensor.diagonal_scatter Tensor.gather Tensor.index_reduce Tensor.scatter Tensor.scatter_add "
        "Tensor.scatter_reduce Tensor.select_scatter Tensor.slice_scatter Tensor.take_along_dim diagonal_scatter "
        "gather index_reduce scatter scatter_add scatter_reduce select_scatter slice_scatter take_along_dim",
        "index_reduce scatter scatter_add scatter_reduce",
    ),
    "plugrad.plugins.ops.searching": ("bucketize searchsorted", "Tensor.bucketize bucketize searchsorted"),
    "plugrad.plugins.ops.selection": (
        "clamp clamp_max clamp_min fmax fmin maximum minimum where where_method where_or_nonzero",
        "Tensor.clamp Tensor.clamp_max Tensor.clamp_min Tensor.clip Tensor.fmax Tensor.fmin Tensor.maximum "
        "Tensor.minimum Tensor.where clamp clamp_max clamp_min clip fmax fmin maximum minimum where",
        "clamp clamp_max clamp_min clip",
    ),
    "plugrad.plugins.ops.shape": (
        "expand expand_as flatten ravel reshape reshape_as squeeze sum_to_size unflatten unsqueeze view view_as",
        "Tensor.broadcast_to Tensor.expand Tensor.expand_as Tensor.flatten Tensor.ravel Tensor.reshape "
        "Tensor.reshape_as Tensor.squeeze Tensor.sum_to_size Tensor.unflatten Tensor.unsqueeze Tensor.view "
        "Tensor.view_as broadcast_to flatten ravel reshape squeeze unflatten unsqueeze",
        "squeeze unsqueeze",
    ),
    "plugrad.plugins.ops.short_time_fourier": ("istft stft", "Tensor.istft Tensor.stft istft stft"),
    "plugrad.plugins.ops.shuffle": (
        "channel_shuffle pixel_shuffle pixel_unshuffle",
        "channel_shuffle native_channel_shuffle nn.functional.channel_shuffle nn.functional.native_channel_shuffle "
        "nn.functional.pixel_shuffle nn.functional.pixel_unshuffle pixel_shuffle pixel_unshuffle",
    ),
    "plugrad.plugins.ops.signal_windows": (
        "bartlett_window blackman_window hamming_window hann_window kaiser_window signal_bartlett signal_blackman "
        "signal_cosine signal_exponential signal_gaussian signal_general_cosine signal_general_hamming signal_hamming "
        "signal_hann signal_kaiser signal_nuttall",
        "bartlett_window blackman_window hamming_window hann_window kaiser_window signal.windows.bartlett "
        "signal.windows.blackman signal.windows.cosine signal.windows.exponential signal.windows.gaussian "
        "signal.windows.general_cosine signal.windows.general_hamming signal.windows.hamming signal.windows.hann "
        "signal.windows.kaiser signal.windows.nuttall",
    ),
    "plugrad.plugins.ops.slice_indexing": (
        "index_add index_copy index_fill index_select",
        "Tensor.index_add Tensor.index_copy Tensor.index_fill Tensor.index_select index_add index_copy index_fill "
        "index_select",
        "index_add index_copy index_fill",
    ),
    "plugrad.plugins.ops.softmax": (
        "functional_log_softmax functional_softmax glu gumbel_noise gumbel_softmax log_softmax safe_softmax softmax "
        "softmin",
        "Tensor.log_softmax Tensor.softmax log_softmax nn.functional.glu nn.functional.gumbel_softmax "
        "nn.functional.log_softmax nn.functional.softmax nn.functional.softmin softmax special.log_softmax "
        "special.softmax",
    ),
    "plugrad.plugins.ops.solvers": (
        "cholesky_inverse cholesky_solve inverse linalg_inv linalg_inv_ex linalg_solve linalg_solve_ex "
        "linalg_solve_triangular linalg_tensorinv linalg_tensorsolve solve_matrices triangular_matrices "
        "triangular_solve",
        "Tensor.cholesky_inverse Tensor.cholesky_solve Tensor.inverse Tensor.triangular_solve cholesky_inverse "
        "cholesky_solve inverse linalg.inv linalg.inv_ex linalg.solve linalg.solve_ex linalg.solve_triangular "
        "linalg.tensorinv linalg.tensorsolve triangular_solve",
    ),
    "plugrad.plugins.ops.sorting": (
        "argsort kthvalue msort sort topk",
        "Tensor.argsort Tensor.kthvalue Tensor.msort Tensor.sort Tensor.topk argsort kthvalue msort sort topk",
    ),
    "plugrad.plugins.ops.sparse": ("sparse_product to_dense", "Tensor.to_dense"),
    "plugrad.plugins.ops.spectral": (
        "linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_matrix_rank linalg_svd linalg_svdvals "
        "matrix_rank_method svd",
        "Tensor.matrix_rank Tensor.svd linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.matrix_rank "
        "linalg.svd linalg.svdvals svd",
    ),
    "plugrad.plugins.ops.splitting": (
        "chunk dsplit hsplit imag real split split_evenly split_with_sizes tensor_split unbind view_as_complex "
        "view_as_real vsplit",
        "Tensor.chunk Tensor.dsplit Tensor.hsplit Tensor.split Tensor.split_with_sizes Tensor.tensor_split "
        "Tensor.unbind Tensor.vsplit chunk dsplit hsplit imag real split split_with_sizes tensor_split unbind "
        "view_as_complex view_as_real vsplit",
    ),
    "plugrad.plugins.ops.statistics": (
        "corrcoef cov histogram histogram_grid histogramdd",
        "Tensor.corrcoef Tensor.cov Tensor.histogram corrcoef cov histogram histogramdd",
    ),
    "plugrad.plugins.ops.strided": (
        "as_strided strided_read strided_sum strided_view",
        "Tensor.as_strided as_strided",
        "as_strided",
    ),
    "plugrad.plugins.ops.trigonometry": (
        "acos acosh asin asinh atan atan2 atanh cos cosh deg2rad hypot rad2deg sin sinc sinh tan tanh",
        "Tensor.acos Tensor.acosh Tensor.arccos Tensor.arccosh Tensor.arcsin Tensor.arcsinh Tensor.arctan "
        "Tensor.arctan2 Tensor.arctanh Tensor.asin Tensor.asinh Tensor.atan Tensor.atan2 Tensor.atanh Tensor.cos "
        "Tensor.cosh Tensor.deg2rad Tensor.hypot Tensor.rad2deg Tensor.sin Tensor.sinc Tensor.sinh Tensor.tan "
        "Tensor.tanh acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh cos "
        "cosh deg2rad hypot nn.functional.tanh rad2deg sin sinc sinh special.sinc tan tanh",
        "acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh cos cosh deg2rad "
        "hypot rad2deg sin sinc sinh tan tanh",
    ),
    "plugrad.plugins.ops.unpooling": (
        "adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices lp_pool1d "
        "lp_pool2d lp_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices max_unpool1d "
        "max_unpool2d max_unpool3d",
        "adaptive_max_pool1d max_pool1d_with_indices nn.functional.adaptive_max_pool1d_with_indices "
        "nn.functional.adaptive_max_pool2d_with_indices nn.functional.adaptive_max_pool3d_with_indices "
        "nn.functional.lp_pool1d nn.functional.lp_pool2d nn.functional.lp_pool3d "
        "nn.functional.max_pool1d_with_indices nn.functional.max_pool2d_with_indices "
        "nn.functional.max_pool3d_with_indices nn.functional.max_unpool1d nn.functional.max_unpool2d "
        "nn.functional.max_unpool3d",
    ),
    "plugrad.plugins.ops.variance": (
        "deviation std std_mean var var_mean variance",
        "Tensor.std Tensor.var std std_mean var var_mean",
    ),
    "plugrad.plugins.ops.vector_norms": (
        "dist linalg_cond linalg_matrix_norm linalg_norm linalg_vector_norm norm norm_except_dim renorm weight_norm",
        "Tensor.dist Tensor.norm Tensor.norm_except_dim Tensor.renorm _weight_norm dist linalg.cond "
        "linalg.matrix_norm linalg.norm linalg.vector_norm norm norm_except_dim renorm",
        "renorm",
    ),
    "plugrad.plugins.ops.views": (
        "adjoint diagonal diagonal_in_zeros movedim narrow permute put_in_zeros select sliding_windows "
        "sliding_windows_sum swapaxes t transpose",
        "Tensor.adjoint Tensor.diagonal Tensor.moveaxis Tensor.movedim Tensor.narrow Tensor.permute Tensor.select "
        "Tensor.swapaxes Tensor.swapdims Tensor.t Tensor.transpose Tensor.unfold adjoint diagonal moveaxis movedim "
        "narrow permute select swapaxes swapdims t transpose",
        "swapaxes swapdims t transpose",
    ),
}
