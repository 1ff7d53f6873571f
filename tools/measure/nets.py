"""Made-up models that put operators under test into a small net.  Each takes its inputs and returns its
loss, so `loss` is own and the exported graph holds it.  Every operator gets the output of a layer of its
own (a linear layer or a 1x1 convolution), and its result is averaged: what the operator saves and allocates
then shows between those two in the allocator's trace.

A net says what it takes with inputs(batch): [(name, tensor, kind)], kind normal (filled with noise on the
card, cast to the job's type), float (cast only), int (left alone)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def feat(y):
    """One number per sample, in fp32 whatever the type: [B, ...] -> [B]."""
    return y.flatten(1).float().mean(1)


def close(feats):
    return torch.stack([f.sum() for f in feats]).pow(2).mean()


# name: function of x, the output of its own layer.  tok: x is [B, L, C]; img: [B, C, H, W];
# seq: [B, C, L]; vol: [B, C, D, H, W].
def _half(x):
    return x.chunk(2, -1)


TOK = {
    "celu": F.celu, "hardshrink": F.hardshrink, "softshrink": F.softshrink, "tanhshrink": F.tanhshrink,
    "logsigmoid": F.logsigmoid, "threshold": lambda x: F.threshold(x, 0.1, 20.0), "rrelu": lambda x: F.rrelu(x, training=True),
    "relu6": F.relu6, "hardsigmoid": F.hardsigmoid, "hardtanh": F.hardtanh, "softsign": F.softsign, "softplus": F.softplus,
    "glu": F.glu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "elu": F.elu, "selu": F.selu, "mish": F.mish,
    "hardswish": F.hardswish, "silu": F.silu, "leaky_relu": F.leaky_relu,
    "softmin": lambda x: F.softmin(x, -1), "log_softmax": lambda x: F.log_softmax(x, -1), "softmax1": lambda x: F.softmax(x, 1),
    "gumbel": lambda x: F.gumbel_softmax(x, dim=-1),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.2, True), "dropout": lambda x: F.dropout(x, 0.2, True),
    "dropout1d": lambda x: F.dropout1d(x, 0.2, True), "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.2, True),
    "exp": torch.exp, "log": lambda x: torch.log(x.abs() + 1), "sqrt": lambda x: torch.sqrt(x.abs() + 1), "erf": torch.erf,
    "sin": torch.sin, "cos": torch.cos, "reciprocal": lambda x: torch.reciprocal(x.abs() + 1), "pow3": lambda x: x.pow(3),
    "pow_tensor": lambda x: torch.pow(x.abs() + 1, x), "rsqrt": lambda x: torch.rsqrt(x.abs() + 1), "expm1": torch.expm1,
    "log1p": lambda x: torch.log1p(x.abs()), "atan": torch.atan, "sinh": torch.sinh, "square": torch.square, "sign": lambda x: x * torch.sign(x),
    "abs": torch.abs, "neg": torch.neg, "rsub": lambda x: 1 - x, "div": lambda x: x / (x.detach().abs() + 1), "div_self": lambda x: x / (x.abs() + 1),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5), "addcdiv": lambda x: torch.addcdiv(x, x, x.abs() + 1),
    "lerp": lambda x: torch.lerp(x, x.flip(1), 0.3), "atan2": lambda x: torch.atan2(x, x.flip(1) + 2), "hypot": lambda x: torch.hypot(x, x.flip(1)),
    "maximum": lambda x: torch.maximum(x, x.flip(1)), "minimum": lambda x: torch.minimum(x, x.flip(1)), "fmod": lambda x: torch.fmod(x, 0.7),
    "sigmoid_": lambda x: x.sigmoid_(), "tanh_": lambda x: x.tanh_(), "relu_": lambda x: x.relu_(), "exp_": lambda x: x.exp_(),
    "mul_": lambda x: x.mul_(2.0), "add_": lambda x: x.add_(1.0), "clamp_": lambda x: x.clamp_(-1, 1), "hardswish_": lambda x: F.hardswish(x, True),
    "softmax": lambda x: F.softmax(x, -1), "softmax_f32": lambda x: F.softmax(x, -1, dtype=torch.float32),
    "clamp": lambda x: x.clamp(-0.5, 0.5), "clamp_min": lambda x: x.clamp(min=0.1), "where": lambda x: torch.where(x > 0, x, x * 0.1),
    "where_scalar": lambda x: torch.where(x > 0, x, 0.0), "masked_fill": lambda x: x.masked_fill(x > 1, -1.0),
    "nan_to_num": torch.nan_to_num, "mask_mul": lambda x: x * (x > 0),
    "max_dim": lambda x: x.max(1)[0], "min_dim": lambda x: x.min(-1)[0], "amax": lambda x: x.amax(1), "amin": lambda x: x.amin(-1),
    "topk": lambda x: x.topk(16, -1)[0], "sort": lambda x: x.sort(-1)[0], "argsort_gather": lambda x: x.gather(1, x.argsort(1)),
    "kthvalue": lambda x: x.kthvalue(5, -1)[0], "median": lambda x: x.median(-1)[0],
    "cumsum": lambda x: x.cumsum(1), "cumprod": lambda x: (x * 0.01 + 1).cumprod(1), "cummax": lambda x: x.cummax(1)[0],
    "logcumsumexp": lambda x: x.logcumsumexp(1), "logsumexp": lambda x: x.logsumexp(-1), "norm2": lambda x: x.norm(dim=-1),
    "norm1": lambda x: x.norm(p=1, dim=-1), "vector_norm": lambda x: torch.linalg.vector_norm(x, dim=1), "normalize": lambda x: F.normalize(x, dim=-1),
    "std": lambda x: x.std(1), "var": lambda x: x.var(-1), "var_mean": lambda x: sum(torch.var_mean(x, -1)), "prod": lambda x: (x * 0.01 + 1).prod(1),
    "sum": lambda x: x.sum(1), "mean": lambda x: x.mean(1), "sum_all": lambda x: x.sum((1, 2)).unsqueeze(1),
    "stack": lambda x: torch.stack(_half(x), 1), "cat": lambda x: torch.cat([x, x * 2], -1), "tile": lambda x: x.tile(1, 2, 1),
    "repeat": lambda x: x.repeat(1, 1, 3), "repeat_interleave": lambda x: x.repeat_interleave(2, 1), "flip": lambda x: x.flip(1),
    "roll": lambda x: x.roll(3, 1), "tril": lambda x: x.tril(), "triu": lambda x: x.triu(), "expand": lambda x: x.unsqueeze(1).expand(-1, 2, -1, -1) * 2,
    "index_select": lambda x: x.index_select(1, torch.arange(0, x.shape[1], 2, device=x.device)),
    "gather": lambda x: x.gather(1, torch.zeros_like(x, dtype=torch.long)),
    "take_along": lambda x: torch.take_along_dim(x, torch.zeros_like(x[:, :8], dtype=torch.long), 1),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(1, torch.zeros_like(x, dtype=torch.long), x),
    "scatter": lambda x: torch.zeros_like(x).scatter(1, torch.zeros_like(x, dtype=torch.long), x),
    "scatter_reduce": lambda x: torch.zeros_like(x).scatter_reduce(1, torch.zeros_like(x, dtype=torch.long), x, "sum"),
    "index_add": lambda x: torch.zeros_like(x).index_add(1, torch.arange(x.shape[1], device=x.device), x),
    "index": lambda x: x[:, torch.arange(0, x.shape[1], 3, device=x.device)], "index_put": lambda x: torch.zeros_like(x).index_put(
        (torch.arange(x.shape[0], device=x.device),), x),
    "slice_step": lambda x: x[:, ::2] * 1.5, "narrow": lambda x: x.narrow(1, 1, x.shape[1] - 2).exp(), "select": lambda x: x[:, 0],
    "unbind": lambda x: sum(x.unbind(1)), "split": lambda x: torch.cat([t.relu() for t in x.split(x.shape[1] // 4, 1)], 1),
    "movedim": lambda x: x.movedim(1, 2).contiguous(), "permute_copy": lambda x: x.transpose(1, 2).contiguous().relu(),
    "contiguous": lambda x: x.transpose(0, 1).reshape(x.shape[0], -1), "meshgrid": lambda x: sum(torch.meshgrid(x[0, 0], x[0, 1], indexing="ij")).unsqueeze(0),
    "outer": lambda x: torch.outer(x[0, 0], x[0, 1]).unsqueeze(0), "diag": lambda x: torch.diag_embed(x[:, 0]),
    "bmm": lambda x: torch.bmm(x, x.transpose(1, 2)), "baddbmm": lambda x: torch.baddbmm(torch.bmm(x, x.transpose(1, 2)), x, x.transpose(1, 2), alpha=0.5),
    "einsum_bld": lambda x: torch.einsum("bld,bmd->blm", x, x), "einsum_outer": lambda x: torch.einsum("bl,bm->blm", x[:, :, 0], x[:, :, 1]),
    "einsum_heads": lambda x: torch.einsum("blhd,bmhd->bhlm", x.unflatten(-1, (4, -1)), x.unflatten(-1, (4, -1))),
    "einsum_trace": lambda x: torch.einsum("bld->bd", x), "einsum_scale": lambda x: torch.einsum("bld,bl->bld", x, x[:, :, 0]),
    "matmul4": lambda x: x.unflatten(-1, (4, -1)).transpose(1, 2) @ x.unflatten(-1, (4, -1)).permute(0, 2, 3, 1),
    "mv": lambda x: torch.matmul(x, x[0, 0]), "addmm": lambda x: torch.addmm(x[0], x[0], x[0, :, :1] @ x[0, :1]).unsqueeze(0) if x.shape[1] == x.shape[2] else x,
    "cdist": lambda x: torch.cdist(x.float(), x.float()), "cosine": lambda x: F.cosine_similarity(x, x.flip(1), dim=-1),
    "pairwise": lambda x: F.pairwise_distance(x.flatten(0, 1), x.flip(1).flatten(0, 1)).unsqueeze(0),
    "pad_constant": lambda x: F.pad(x, (1, 2)), "pad_reflect": lambda x: F.pad(x, (3, 3), mode="reflect"), "pad_replicate": lambda x: F.pad(x, (3, 3), mode="replicate"),
    "pad_circular": lambda x: F.pad(x, (3, 3), mode="circular"), "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]), "layer_norm2": lambda x: F.layer_norm(x, x.shape[-2:]),
    "to_half": lambda x: x.to(torch.float16).exp(), "to_float": lambda x: x.float().exp(), "clone": lambda x: x.clone().exp(), "detach": lambda x: x * x.detach(),
    "complex_fft": lambda x: torch.fft.rfft(x.float(), dim=-1).abs(), "diff": lambda x: x.diff(dim=1), "bool_and": lambda x: x * ((x > 0) & (x < 1)),
    "unfold_dim": lambda x: x.unfold(1, 8, 4) * 2, "rot_half": lambda x: torch.cat((-x[..., x.shape[-1] // 2:], x[..., :x.shape[-1] // 2]), -1) * 0.5 + x,
    "one_hot": lambda x: F.one_hot(x.argmax(-1), x.shape[-1]) * x, "dist": lambda x: torch.dist(x, x.flip(1)).reshape(1, 1),
}
IMG = {
    "group_norm": lambda x: F.group_norm(x, 8), "instance_norm": lambda x: F.instance_norm(x), "local_response": lambda x: F.local_response_norm(x, 5),
    "max_pool": lambda x: F.max_pool2d(x, 3, 2, 1), "avg_pool": lambda x: F.avg_pool2d(x, 3, 2, 1), "lp_pool": lambda x: F.lp_pool2d(x.abs() + 0.1, 2, 2),
    "adaptive_avg": lambda x: F.adaptive_avg_pool2d(x, 7), "adaptive_max": lambda x: F.adaptive_max_pool2d(x, 7), "adaptive_avg1": lambda x: F.adaptive_avg_pool2d(x, 1),
    "frac_pool": lambda x: F.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.5)), "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2).exp(),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2).exp(), "channel_shuffle": lambda x: F.channel_shuffle(x, 4),
    "pad_reflect2": lambda x: F.pad(x, (2, 2, 2, 2), mode="reflect"), "pad_replicate2": lambda x: F.pad(x, (2, 2, 2, 2), mode="replicate"),
    "pad_circular2": lambda x: F.pad(x, (2, 2, 2, 2), mode="circular"), "pad_zero2": lambda x: F.pad(x, (1, 0, 1, 0)),
    "up_nearest": lambda x: F.interpolate(x, scale_factor=2), "up_bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "up_bicubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), "up_area": lambda x: F.interpolate(x, size=(20, 20), mode="area"),
    "up_align": lambda x: F.interpolate(x, size=(50, 70), mode="bilinear", align_corners=True), "up_antialias": lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True),
    "down_nearest_exact": lambda x: F.interpolate(x, scale_factor=0.5, mode="nearest-exact"),
    "grid_sample": lambda x: F.grid_sample(x, F.affine_grid(torch.eye(2, 3, device=x.device, dtype=x.dtype).expand(x.shape[0], 2, 3), x.shape, align_corners=False), align_corners=False),
    "grid_sample_grad": lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1).tanh(), align_corners=False),
    "unfold": lambda x: F.unfold(x, 3, padding=1), "fold": lambda x: F.fold(F.unfold(x, 2, stride=2), x.shape[2:], 2, stride=2),
    "dropout2d": lambda x: F.dropout2d(x, 0.2, True), "softmax2d": lambda x: F.softmax(x, 1), "relu_conv_": lambda x: F.relu_(x), "se": lambda x: x * x.mean((2, 3), keepdim=True).sigmoid(),
    "cl_switch": lambda x: x.contiguous(memory_format=torch.channels_last).exp(), "max_unpool": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
}
SEQ = {
    "max_pool1": lambda x: F.max_pool1d(x, 3, 2, 1), "avg_pool1": lambda x: F.avg_pool1d(x, 3, 2, 1), "lp_pool1": lambda x: F.lp_pool1d(x.abs() + 0.1, 2, 2),
    "adaptive_avg1d": lambda x: F.adaptive_avg_pool1d(x, 16), "adaptive_max1d": lambda x: F.adaptive_max_pool1d(x, 16), "instance_norm1": lambda x: F.instance_norm(x),
    "group_norm1": lambda x: F.group_norm(x, 8), "up_linear": lambda x: F.interpolate(x, scale_factor=2, mode="linear"), "up_nearest1": lambda x: F.interpolate(x, scale_factor=2),
    "glu1": lambda x: F.glu(x, 1), "pad_reflect1": lambda x: F.pad(x, (4, 4), mode="reflect"),
}
VOL = {
    "max_pool3": lambda x: F.max_pool3d(x, 3, 2, 1), "avg_pool3": lambda x: F.avg_pool3d(x, 3, 2, 1), "adaptive_avg3": lambda x: F.adaptive_avg_pool3d(x, 4),
    "adaptive_max3": lambda x: F.adaptive_max_pool3d(x, 4), "up_trilinear": lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), "up_nearest3": lambda x: F.interpolate(x, scale_factor=2),
    "instance_norm3": lambda x: F.instance_norm(x), "dropout3d": lambda x: F.dropout3d(x, 0.2, True), "group_norm3": lambda x: F.group_norm(x, 8), "pad_replicate3": lambda x: F.pad(x, (1,) * 6, mode="replicate"),
}
# Layers with parameters of their own, built from the channel count c; applied after the 1x1 convolution.
LAYERS = {
    "tok": {"rmsnorm": lambda c: nn.RMSNorm(c), "layernorm": lambda c: nn.LayerNorm(c), "layernorm_nobias": lambda c: nn.LayerNorm(c, bias=False), "prelu": lambda c: nn.PReLU(),
            "embedding_free_bilinear": lambda c: _Bi(c), "bag": lambda c: _Bag(c, "sum"), "bag_mean": lambda c: _Bag(c, "mean"), "bag_max": lambda c: _Bag(c, "max"),
            "linear_nobias": lambda c: nn.Linear(c, c * 2, bias=False), "param_scale": lambda c: _Scale(c)},
    "img": {"batchnorm": lambda c: nn.BatchNorm2d(c), "batchnorm_plain": lambda c: nn.BatchNorm2d(c, affine=False), "groupnorm": lambda c: nn.GroupNorm(8, c), "instancenorm": lambda c: nn.InstanceNorm2d(c, affine=True, track_running_stats=True),
            "convt": lambda c: nn.ConvTranspose2d(c, c // 2, 2, 2), "convt3": lambda c: nn.ConvTranspose2d(c, c, 3, 2, 1, 1, groups=4), "depthwise": lambda c: nn.Conv2d(c, c, 7, padding=3, groups=c),
            "grouped": lambda c: nn.Conv2d(c, c, 3, padding=1, groups=8), "dilated": lambda c: nn.Conv2d(c, c, 3, padding=4, dilation=4), "reflect": lambda c: nn.Conv2d(c, c, 3, padding=1, padding_mode="reflect"),
            "conv5": lambda c: nn.Conv2d(c, c, 5, padding=2, bias=False), "prelu_c": lambda c: nn.PReLU(c), "same": lambda c: nn.Conv2d(c, c, 4, padding="same"), "spectral": lambda c: nn.utils.parametrizations.weight_norm(nn.Conv2d(c, c, 3, padding=1))},
    "seq": {"conv1d": lambda c: nn.Conv1d(c, c, 9, padding=4), "conv1d_s": lambda c: nn.Conv1d(c, c * 2, 5, 2, 2), "conv1d_dw": lambda c: nn.Conv1d(c, c, 15, padding=7, groups=c), "convt1d": lambda c: nn.ConvTranspose1d(c, c, 4, 2, 1),
            "bn1d": lambda c: nn.BatchNorm1d(c), "gn1d": lambda c: nn.GroupNorm(4, c), "dilated1d": lambda c: nn.Conv1d(c, c, 3, padding=8, dilation=8)},
    "vol": {"conv3d_g": lambda c: nn.Conv3d(c, c, 3, padding=1, groups=4), "conv3d_dw": lambda c: nn.Conv3d(c, c, 3, padding=1, groups=c), "convt3d": lambda c: nn.ConvTranspose3d(c, c // 2, 2, 2), "bn3d": lambda c: nn.BatchNorm3d(c),
            "conv3d": lambda c: nn.Conv3d(c, c, 3, padding=1), "conv3d_133": lambda c: nn.Conv3d(c, c, (1, 3, 3), padding=(0, 1, 1), bias=False)},
}
TABLES = {"tok": TOK, "img": IMG, "seq": SEQ, "vol": VOL}


class _Bi(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.b = nn.Bilinear(c, c, 16)

    def forward(self, x):
        return self.b(x, x.flip(1))


class _Bag(nn.Module):
    def __init__(self, c, mode):
        super().__init__()
        self.b = nn.EmbeddingBag(20000, c, mode=mode)

    def forward(self, x):
        i = (x.detach()[..., :32].abs() * 1000).long().clamp(0, 19999).flatten(0, 1)
        return self.b(i).unflatten(0, x.shape[:2]) + x


class _Scale(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.w = nn.Parameter(torch.ones(c))

    def forward(self, x):
        return x * self.w + self.w


class OpsNet(nn.Module):
    """shape: of one sample, channels last for tok and first elsewhere; ops: names of the tables above."""

    def __init__(self, space, shape, ops):
        super().__init__()
        self.space, self.shape, self.ops = space, shape, ops
        c = shape[-1] if space == "tok" else shape[0]
        make = {"tok": nn.Linear, "img": lambda a, b: nn.Conv2d(a, b, 1), "seq": lambda a, b: nn.Conv1d(a, b, 1), "vol": lambda a, b: nn.Conv3d(a, b, 1)}[space]
        self.stems = nn.ModuleList(make(c, c) for _ in ops)
        self.own = nn.ModuleDict({o: LAYERS[space][o](c) for o in ops if o in LAYERS[space]})

    def inputs(self, batch):
        return [("x", torch.zeros(batch, *self.shape), "normal")]

    def forward(self, x):
        feats = []
        for name, stem in zip(self.ops, self.stems):
            y = stem(x)
            y = self.own[name](y) if name in self.own else TABLES[self.space][name](y)
            feats.append(feat(y))
        return close(feats)


LOSSES = {
    "mse": F.mse_loss, "l1": F.l1_loss, "smooth_l1": F.smooth_l1_loss, "huber": F.huber_loss,
    "bce": lambda p, y: F.binary_cross_entropy(p.sigmoid().float(), y.float().sigmoid()), "bce_logits": F.binary_cross_entropy_with_logits,
    "kl_div": lambda p, y: F.kl_div(F.log_softmax(p, -1), F.softmax(y, -1), reduction="batchmean"), "soft_ce": lambda p, y: F.cross_entropy(p, F.softmax(y, -1)),
    "gaussian_nll": lambda p, y: F.gaussian_nll_loss(p, y, p.exp()), "poisson": F.poisson_nll_loss, "soft_margin": lambda p, y: F.soft_margin_loss(p, y.sign()),
    "mse_sum": lambda p, y: F.mse_loss(p, y, reduction="sum"), "mse_none": lambda p, y: F.mse_loss(p, y, reduction="none").mean(),
    "cosine_embedding": lambda p, y: F.cosine_embedding_loss(p, y, torch.ones(p.shape[0], device=p.device)),
    "triplet": lambda p, y: F.triplet_margin_loss(p, y, y.flip(0)), "margin_ranking": lambda p, y: F.margin_ranking_loss(p, y, torch.ones_like(p)),
    "multilabel_soft": lambda p, y: F.multilabel_soft_margin_loss(p, (y > 0).to(p.dtype)), "hinge_embedding": lambda p, y: F.hinge_embedding_loss(p, y.sign()),
}
CLASS_LOSSES = {
    "ce": F.cross_entropy, "nll": lambda p, y: F.nll_loss(F.log_softmax(p, -1), y), "ce_smooth": lambda p, y: F.cross_entropy(p, y, label_smoothing=0.1),
    "ce_weight": lambda p, y: F.cross_entropy(p, y, weight=torch.ones(p.shape[-1], device=p.device, dtype=p.dtype)), "multi_margin": F.multi_margin_loss,
    "ce_none": lambda p, y: F.cross_entropy(p, y, reduction="none").mean(), "ce_float": lambda p, y: F.cross_entropy(p.float(), y), "nll_f32": lambda p, y: F.nll_loss(F.log_softmax(p, -1, dtype=torch.float32), y),
}


class LossNet(nn.Module):
    def __init__(self, loss, inp, out):
        super().__init__()
        self.kind, self.inp, self.out = loss, inp, out
        self.net = nn.Sequential(nn.Linear(inp, 512), nn.ReLU(), nn.Linear(512, out))

    def inputs(self, batch):
        y = ("y", torch.zeros(batch, self.out), "normal") if self.kind in LOSSES else ("y", torch.randint(0, self.out, (batch,)), "int")
        return [("x", torch.zeros(batch, self.inp), "normal"), y]

    def forward(self, x, y):
        p = self.net(x)
        return (LOSSES if self.kind in LOSSES else CLASS_LOSSES)[self.kind](p, y)


class CtcNet(nn.Module):
    def __init__(self, inp, classes, length):
        super().__init__()
        self.inp, self.classes, self.length = inp, classes, length
        self.net = nn.Sequential(nn.Linear(inp, 512), nn.ReLU(), nn.Linear(512, classes))

    def inputs(self, batch):
        return [("x", torch.zeros(self.length, batch, self.inp), "normal"), ("y", torch.randint(1, self.classes, (batch, 20)), "int")]

    def forward(self, x, y):
        b = x.shape[1]
        n = torch.full((b,), self.length, dtype=torch.long)
        return F.ctc_loss(F.log_softmax(self.net(x).float(), -1), y, n, torch.full((b,), 20, dtype=torch.long))


class RnnNet(nn.Module):
    def __init__(self, cell, inp, hidden, layers, seq, **k):
        super().__init__()
        kind = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[cell]
        self.seq, self.inp, self.first = seq, inp, k.get("batch_first", False)
        self.rnn = kind(inp, hidden, layers, **k)
        self.head = nn.Linear((k.get("proj_size") or hidden) * (2 if k.get("bidirectional") else 1), 64)

    def inputs(self, batch):
        shape = (batch, self.seq) if self.first else (self.seq, batch)
        return [("x", torch.zeros(*shape, self.inp), "normal")]

    def forward(self, x):
        return self.head(self.rnn(x)[0]).float().pow(2).mean()


class CellNet(nn.Module):
    def __init__(self, cell, inp, hidden, seq):
        super().__init__()
        self.cell = {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "rnn": nn.RNNCell}[cell](inp, hidden)
        self.inp, self.hidden, self.seq, self.two = inp, hidden, seq, cell == "lstm"
        self.head = nn.Linear(hidden, 64)

    def inputs(self, batch):
        return [("x", torch.zeros(batch, self.seq, self.inp), "normal")]

    def forward(self, x):
        h = x.new_zeros(x.shape[0], self.hidden)
        s = (h, h) if self.two else h
        outs = []
        for t in range(self.seq):
            s = self.cell(x[:, t], s)
            outs.append(s[0] if self.two else s)
        return self.head(torch.stack(outs, 1)).float().pow(2).mean()


class SdpaNet(nn.Module):
    """mask: none, causal, bool, float, float_grad; kv: key and value heads."""

    def __init__(self, heads, head, seq, mask="none", kv=None, dropout=0.0, layers=2):
        super().__init__()
        self.h, self.e, self.kv, self.seq, self.mask, self.p = heads, head, kv or heads, seq, mask, dropout
        d = heads * head
        self.d = d
        self.q = nn.ModuleList(nn.Linear(d, d) for _ in range(layers))
        self.k = nn.ModuleList(nn.Linear(d, self.kv * head) for _ in range(layers))
        self.v = nn.ModuleList(nn.Linear(d, self.kv * head) for _ in range(layers))
        self.o = nn.ModuleList(nn.Linear(d, d) for _ in range(layers))
        if mask == "float_grad":
            self.bias = nn.Parameter(torch.zeros(1, heads, seq, seq))

    def inputs(self, batch):
        r = [("x", torch.zeros(batch, self.seq, self.d), "normal")]
        if self.mask == "bool":
            r.append(("m", torch.ones(batch, 1, self.seq, self.seq, dtype=torch.bool), "int"))
        elif self.mask == "float":
            r.append(("m", torch.zeros(batch, 1, self.seq, self.seq), "float"))
        return r

    def forward(self, x, m=None):
        b, n, _ = x.shape
        if self.mask == "float_grad":
            m = self.bias
        for q, k, v, o in zip(self.q, self.k, self.v, self.o):
            a = [f(x).view(b, n, -1, self.e).transpose(1, 2) for f in (q, k, v)]
            y = F.scaled_dot_product_attention(*a, attn_mask=m if m is None or m.dtype == torch.bool else m.to(a[0].dtype), dropout_p=self.p,
                                               is_causal=self.mask == "causal", enable_gqa=self.kv != self.h)
            x = x + o(y.transpose(1, 2).reshape(b, n, -1))
        return x.float().pow(2).mean()


class StackNet(nn.Module):
    """PyTorch's own Transformer layers and attention.  what: encoder, decoder, mha, mha_weights, transformer."""

    def __init__(self, what, d, heads, ff, layers, seq, act="relu", norm_first=False, dropout=0.1):
        super().__init__()
        self.what, self.d, self.seq = what, d, seq
        k = dict(dim_feedforward=ff, dropout=dropout, activation=act, batch_first=True, norm_first=norm_first)
        if what == "encoder":
            self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(d, heads, **k) for _ in range(layers))
        elif what == "decoder":
            self.blocks = nn.ModuleList(nn.TransformerDecoderLayer(d, heads, **k) for _ in range(layers))
        elif what == "transformer":
            self.t = nn.Transformer(d, heads, layers, layers, **k)
        else:
            self.blocks = nn.ModuleList(nn.MultiheadAttention(d, heads, dropout, batch_first=True) for _ in range(layers))
        self.head = nn.Linear(d, 1000)
        self.checkpoint = False

    def inputs(self, batch):
        return [("x", torch.zeros(batch, self.seq, self.d), "normal"), ("y", torch.randint(0, 1000, (batch, self.seq)), "int")]

    def forward(self, x, y):
        if self.what == "transformer":
            x = self.t(x, x)
        else:
            memory = x
            for b in self.blocks:
                if self.what == "decoder":
                    args = (b, x, memory)
                elif self.what == "encoder":
                    args = (b, x)
                else:
                    args = (lambda x, b=b: x + b(x, x, x, need_weights=self.what == "mha_weights")[0], x)
                if self.checkpoint:
                    x = torch.utils.checkpoint.checkpoint(*args, use_reentrant=False)
                else:
                    x = args[0](*args[1:])
        return F.cross_entropy(self.head(x).flatten(0, 1), y.flatten())


class MlpNet(nn.Module):
    def __init__(self, widths, bias=True, out=None):
        super().__init__()
        self.widths = widths
        self.blocks = nn.ModuleList(nn.Linear(a, b, bias=bias) for a, b in zip(widths, widths[1:]))

    def inputs(self, batch):
        return [("x", torch.zeros(batch, self.widths[0]), "normal"), ("y", torch.randint(0, self.widths[-1], (batch,)), "int")]

    def forward(self, x, y):
        for b in self.blocks[:-1]:
            x = F.relu(b(x))
        return F.cross_entropy(self.blocks[-1](x), y)


class CnnNet(nn.Module):
    def __init__(self, widths, size, classes=100, norm=True):
        super().__init__()
        self.size = size
        mods, c = [], 3
        for i, w in enumerate(widths):
            mods.append(nn.Sequential(nn.Conv2d(c, w, 3, 2 if i % 2 else 1, 1, bias=not norm), nn.BatchNorm2d(w) if norm else nn.Identity(), nn.ReLU(inplace=True)))
            c = w
        self.blocks = nn.ModuleList(mods)
        self.head = nn.Linear(c, classes)
        self.classes = classes

    def inputs(self, batch):
        return [("x", torch.zeros(batch, 3, self.size, self.size), "normal"), ("y", torch.randint(0, self.classes, (batch,)), "int")]

    def forward(self, x, y):
        for b in self.blocks:
            x = b(x)
        return F.cross_entropy(self.head(x.mean((2, 3))), y)


class UNet(nn.Module):
    """Encoder, decoder with skips, transposed convolutions and group norm; mean squared error."""

    def __init__(self, base, size):
        super().__init__()
        self.size = size

        def block(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(8, b), nn.SiLU(), nn.Conv2d(b, b, 3, padding=1), nn.GroupNorm(8, b), nn.SiLU())
        w = [base, base * 2, base * 4]
        self.down = nn.ModuleList([block(3, w[0]), block(w[0], w[1]), block(w[1], w[2])])
        self.up = nn.ModuleList([nn.ConvTranspose2d(w[2], w[1], 2, 2), nn.ConvTranspose2d(w[1], w[0], 2, 2)])
        self.mix = nn.ModuleList([block(w[2], w[1]), block(w[1], w[0])])
        self.out = nn.Conv2d(w[0], 3, 1)

    def inputs(self, batch):
        return [("x", torch.zeros(batch, 3, self.size, self.size), "normal"), ("y", torch.zeros(batch, 3, self.size, self.size), "normal")]

    def forward(self, x, y):
        a = self.down[0](x)
        b = self.down[1](F.max_pool2d(a, 2))
        c = self.down[2](F.avg_pool2d(b, 2))
        d = self.mix[0](torch.cat([self.up[0](c), b], 1))
        e = self.mix[1](torch.cat([self.up[1](d), a], 1))
        return F.mse_loss(self.out(e), y)


NETS = {"ops": OpsNet, "loss": LossNet, "ctc": CtcNet, "rnncell": CellNet, "rnnnet": RnnNet, "sdpa": SdpaNet, "stack": StackNet,
        "plainmlp": MlpNet, "plaincnn": CnnNet, "unet": UNet}
