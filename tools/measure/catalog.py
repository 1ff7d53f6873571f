"""The jobs that jobs.py measures: none is in the first set of measurements.  A job is a dictionary of the
same fields (see README.md); `gb` is a rough bound of the card's memory it takes, for scheduling alone.
Precision, optimizer and batch go round their lists, so that a few jobs per model cover many settings."""
import itertools

import nets

PRECISIONS = ("fp32", "amp-bf16", "bf16", "tf32", "amp-fp16")
OPTIMIZERS = ("adamw", "sgd-momentum", "adam", "adamw-fused", "rmsprop", "adagrad", "sgd", "adamax", "nadam", "radam",
              "adafactor", "lion", "adam-fused", "sgd-fused", "adadelta")

# name: (sample shape, batch sizes, gb of the largest)
TORCHVISION = {
    "resnet34": ((3, 224, 224), (32, 96, 16, 64)), "wide_resnet50_2": ((3, 224, 224), (32, 16, 48)), "resnext101_32x8d": ((3, 224, 224), (16, 8, 24)),
    "densenet169": ((3, 224, 224), (16, 32, 24)), "efficientnet_b2": ((3, 224, 224), (32, 16, 48)), "efficientnet_v2_s": ((3, 224, 224), (16, 32, 24)),
    "mobilenet_v3_large": ((3, 224, 224), (64, 128, 32)), "mnasnet0_5": ((3, 224, 224), (64, 128, 32)), "shufflenet_v2_x0_5": ((3, 224, 224), (128, 64)),
    "squeezenet1_1": ((3, 224, 224), (64, 128)), "inception_v3": ((3, 299, 299), (16, 32, 24)), "convnext_small": ((3, 224, 224), (16, 24, 32)),
    "swin_t": ((3, 224, 224), (16, 32, 24)), "swin_v2_t": ((3, 224, 224), (16, 24)), "vit_b_32": ((3, 224, 224), (32, 64, 96)), "maxvit_t": ((3, 224, 224), (8, 16)),
    "vgg13": ((3, 224, 224), (16, 32, 24)), "vgg19_bn": ((3, 224, 224), (16, 24)), "lraspp_mobilenet_v3_large": ((3, 224, 224), (16, 32)),
    "deeplabv3_mobilenet_v3_large": ((3, 224, 224), (16, 24)), "fcn_resnet101": ((3, 224, 224), (8, 12)), "regnet_y_1_6gf": ((3, 224, 224), (32, 16)),
    "mc3_18": ((3, 16, 112, 112), (8, 4)), "r2plus1d_18": ((3, 16, 112, 112), (4, 8)), "s3d": ((3, 16, 224, 224), (2, 4)),
    "mvit_v2_s": ((3, 16, 224, 224), (2, 1)), "swin3d_t": ((3, 16, 112, 112), (4, 8)),
}

D = dict(hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=1536)
LM = dict(D, vocab_size=32000, max_position_embeddings=1024)
KV = dict(LM, num_key_value_heads=4)
OLD = dict(vocab_size=30000, n_positions=1024, n_ctx=1024, n_embd=512, n_layer=4, n_head=8, rotary_dim=32)
S2S = dict(vocab_size=24000, d_model=512, encoder_layers=3, decoder_layers=3, encoder_attention_heads=8, decoder_attention_heads=8,
           encoder_ffn_dim=1536, decoder_ffn_dim=1536, max_position_embeddings=1024)
C, M, S, CLS, IMG, AUD = "AutoModelForCausalLM", "AutoModelForMaskedLM", "AutoModelForSeq2SeqLM", "AutoModelForSequenceClassification", "AutoModelForImageClassification", "AutoModelForAudioClassification"
# name: (model type, class, settings, batch, sequence)
TRANSFORMERS = {
    "distilbert": ("distilbert", M, dict(dim=512, n_layers=4, n_heads=8, hidden_dim=2048, vocab_size=28000), 8, 256),
    "deberta-v2": ("deberta-v2", M, dict(LM, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=64, norm_rel_ebd="layer_norm", share_att_key=True, max_position_embeddings=512), 4, 256),
    "deberta-v2-cls": ("deberta-v2", CLS, dict(LM, max_position_embeddings=512, vocab_size=60000), 8, 128),
    "opt": ("opt", C, dict(LM, ffn_dim=2048, word_embed_proj_dim=512), 4, 512), "bloom": ("bloom", C, dict(vocab_size=40000, hidden_size=512, n_layer=4, n_head=8), 4, 512),
    "falcon": ("falcon", C, dict(vocab_size=32000, hidden_size=512, num_hidden_layers=4, num_attention_heads=8), 4, 512), "phi": ("phi", C, dict(LM), 4, 512), "phi3": ("phi3", C, dict(KV, pad_token_id=0), 4, 512),
    "gemma": ("gemma", C, dict(KV, head_dim=64, vocab_size=64000), 4, 256), "gemma2": ("gemma2", C, dict(KV, head_dim=64, sliding_window=256, vocab_size=64000), 4, 512),
    "qwen2": ("qwen2", C, dict(KV, vocab_size=50000), 4, 512), "mixtral": ("mixtral", C, dict(KV, num_local_experts=4, intermediate_size=1024), 2, 512),
    "qwen3_moe": ("qwen3_moe", C, dict(KV, num_experts=8, moe_intermediate_size=512, head_dim=64), 2, 512), "gpt_neo": ("gpt_neo", C, dict(vocab_size=30000, hidden_size=512, num_layers=4, num_heads=8, attention_types=[[["global", "local"], 2]], max_position_embeddings=1024), 4, 512),
    "codegen": ("codegen", C, OLD, 4, 512), "gptj": ("gptj", C, OLD, 4, 512), "gpt_bigcode": ("gpt_bigcode", C, dict(vocab_size=30000, n_positions=1024, n_embd=512, n_layer=4, n_head=8), 4, 512),
    "bart": ("bart", S, S2S, 4, 256), "pegasus": ("pegasus", S, S2S, 4, 256), "marian": ("marian", S, dict(S2S, decoder_start_token_id=0, pad_token_id=0), 4, 256), "mbart": ("mbart", S, S2S, 4, 256),
    "t5-gated": ("t5", S, dict(vocab_size=24000, d_model=512, d_kv=64, d_ff=1024, num_layers=3, num_heads=8, feed_forward_proj="gated-gelu", decoder_start_token_id=0, tie_word_embeddings=False), 4, 256),
    "mt5": ("mt5", S, dict(vocab_size=60000, d_model=512, d_kv=64, d_ff=1024, num_layers=3, num_heads=8, decoder_start_token_id=0), 4, 256),
    "longformer": ("longformer", M, dict(LM, attention_window=64, max_position_embeddings=1026), 2, 512), "xlm-roberta": ("xlm-roberta", M, dict(LM, vocab_size=60000, max_position_embeddings=514), 8, 256),
    "camembert": ("camembert", CLS, dict(LM, max_position_embeddings=514), 8, 256), "mpnet": ("mpnet", M, dict(LM, max_position_embeddings=514), 8, 256), "funnel": ("funnel", CLS, dict(vocab_size=30000, block_sizes=[2, 2, 2], d_model=512, n_head=8, d_head=64, d_inner=1536), 8, 256),
    "convbert": ("convbert", M, dict(LM, max_position_embeddings=512), 8, 256), "mobilebert": ("mobilebert", M, dict(num_hidden_layers=6), 8, 128), "fnet": ("fnet", M, dict(LM, max_position_embeddings=512), 8, 256),
    "modernbert": ("modernbert", M, dict(hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=1024, vocab_size=32000, max_position_embeddings=1024, pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2), 8, 256),
    "beit": ("beit", IMG, dict(D, num_labels=100), 8, 0), "deit": ("deit", "DeiTForImageClassification", dict(D, num_labels=100), 16, 0), "swin": ("swin", IMG, dict(embed_dim=64, depths=[2, 2, 2, 2], num_heads=[2, 4, 8, 16], num_labels=100), 16, 0), "swinv2": ("swinv2", IMG, dict(embed_dim=64, depths=[2, 2, 2], num_heads=[2, 4, 8], num_labels=100), 16, 0),
    "convnext": ("convnext", IMG, dict(hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 4, 2], num_labels=100), 16, 0), "convnextv2": ("convnextv2", IMG, dict(hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 4, 2], num_labels=100), 16, 0),
    "segformer": ("segformer", "AutoModelForSemanticSegmentation", dict(num_labels=19), 8, 0), "segformer-cls": ("segformer", IMG, dict(num_labels=100), 16, 0), "dinov2": ("dinov2", IMG, dict(D, image_size=224, num_labels=100), 8, 0), "resnet-hf": ("resnet", IMG, dict(num_labels=100), 16, 0),
    "mobilevit": ("mobilevit", IMG, dict(num_labels=100), 16, 0), "pvt": ("pvt", IMG, dict(num_labels=100), 16, 0), "poolformer": ("poolformer", IMG, dict(num_labels=100), 16, 0), "cvt": ("cvt", IMG, dict(num_labels=100), 8, 0),
    "clip": ("clip", "CLIPModel", dict(text_config=dict(D, vocab_size=20000, max_position_embeddings=77), vision_config=dict(D, image_size=224, patch_size=32), projection_dim=256), 16, 77), "siglip": ("siglip", "SiglipModel", dict(text_config=dict(D, vocab_size=20000, max_position_embeddings=64), vision_config=dict(D, image_size=224, patch_size=16)), 8, 64),
    "whisper": ("whisper", "WhisperForConditionalGeneration", dict(vocab_size=20000, d_model=384, encoder_layers=3, decoder_layers=3, encoder_attention_heads=6, decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536, num_mel_bins=80, pad_token_id=0, decoder_start_token_id=1, bos_token_id=1, eos_token_id=2), 2, 64),
    "hubert": ("hubert", AUD, dict(D, num_labels=10), 4, 0), "mamba": ("mamba", C, dict(vocab_size=20000, hidden_size=256, num_hidden_layers=2, state_size=8), 2, 64), "rwkv": ("rwkv", C, dict(vocab_size=20000, hidden_size=256, num_hidden_layers=2, attention_hidden_size=256, context_length=64), 2, 64),
    "stablelm": ("stablelm", C, KV, 4, 512), "olmo": ("olmo", C, KV, 4, 512), "olmo2": ("olmo2", C, KV, 4, 512), "starcoder2": ("starcoder2", C, KV, 4, 512), "cohere": ("cohere", C, dict(KV, pad_token_id=0), 4, 512), "granite": ("granite", C, KV, 4, 512), "smollm3": ("smollm3", C, dict(KV, pad_token_id=0), 4, 512),
    "glm": ("glm", C, dict(KV, head_dim=64, pad_token_id=0), 4, 512), "helium": ("helium", C, dict(KV, head_dim=64), 4, 512), "persimmon": ("persimmon", C, dict(LM), 4, 512), "xglm": ("xglm", C, dict(vocab_size=30000, d_model=512, ffn_dim=1536, num_layers=4, attention_heads=8), 4, 256), "biogpt": ("biogpt", C, LM, 4, 256),
    "nemotron": ("nemotron", C, dict(KV, head_dim=64), 4, 512), "xlm": ("xlm", CLS, dict(emb_dim=512, n_layers=4, n_heads=8, vocab_size=30000), 4, 256), "llama-s": ("llama", C, KV, 4, 512), "gpt2-s": ("gpt2", C, dict(vocab_size=30000, n_embd=512, n_layer=6, n_head=8), 4, 512), "bert-s": ("bert", M, LM, 8, 256),
    "squeezebert": ("squeezebert", M, dict(LM, max_position_embeddings=512, embedding_size=512), 8, 256), "rembert": ("rembert", M, dict(LM, input_embedding_size=128, output_embedding_size=512), 4, 256), "roformer": ("roformer", M, dict(LM, max_position_embeddings=512), 8, 256),
}


def base(source, family, model, batch, i, **more):
    j = dict(source=source, family=family, batch=batch, model=model, loss="ce", precision=PRECISIONS[i % 5], optimizer=OPTIMIZERS[i % len(OPTIMIZERS)], checkpoint=False)
    j.update(more)
    return j


def vision():
    out, i = [], 0
    for name, (shape, batches) in TORCHVISION.items():
        for n, b in enumerate(batches):
            j = base("torchvision", "cnn", dict(kind="torchvision", name=name, shape=list(shape)), b, i, id="ntv-%s-%d" % (name, n))
            if len(shape) == 3 and n == 1 and not name.startswith(("vit", "swin", "maxvit")):
                j["channels_last"] = True
                j["cudnn_benchmark"] = False
            if len(shape) == 3 and n == 2 and i % 2:
                j["cudnn_benchmark"] = True
                j["channels_last"] = False
            j["gb"] = 10
            out.append(j)
            i += 1
        i += 1
    return out


def language():
    out, i = [], 0
    for name, (kind, auto, over, batch, seq) in TRANSFORMERS.items():
        for n in range(3):
            j = base("transformers", "transformer", dict(kind="transformers", name=name, type=kind, settings=over), batch * (1, 2, 1)[n], i, id="nhf-%s-%d" % (name, n), loss="own", auto=auto)
            if seq:
                j["seq"] = seq if n < 2 else seq // 2
            if n == 2 and i % 2 and name not in ("clip", "siglip", "mamba", "rwkv", "funnel", "xlm"):
                j["checkpoint"] = True
            j["gb"] = 6
            out.append(j)
            i += 1
        i += 1
    return out


EXTRA_OPTIMIZERS = ("adadelta", "adamax", "nadam", "radam", "adafactor", "asgd", "rprop", "sgd-fused", "adam-fused", "adagrad-fused", "lion",
                    "muon", "adamw-amsgrad", "sgd-nesterov", "rmsprop-centered", "adamw-single", "adam-single", "adam-decay", "adam", "adagrad", "rmsprop", "sgd")


def optimizers():
    models = [("mlp", dict(kind="plainmlp", widths=[1000, 1777, 2300, 515, 3000]), 256), ("mlp2d", dict(kind="plainmlp", widths=[1024, 2048, 1536, 1000], bias=False), 256),
              ("tfm", dict(kind="stack", what="encoder", d=512, heads=8, ff=2048, layers=5, seq=128), 8), ("cnn", dict(kind="plaincnn", widths=[48, 96, 200, 384, 512], size=48), 16)]
    out = []
    for o, (i, (tag, model, batch)) in itertools.product(EXTRA_OPTIMIZERS, enumerate(models)):
        if (tag == "mlp2d") != (o == "muon") and tag == "mlp2d":
            continue
        if o == "muon" and tag != "mlp2d":
            continue
        p = PRECISIONS[(len(out)) % 5] if len(out) % 2 else "fp32"
        out.append(base("synthetic", tag, model, batch, 0, id="nopt-%s-%s" % (o, tag), precision=p, optimizer=o, loss="own", gb=3))
    return out


SHAPES = {"tok": ((256, 256), 32), "img": ((64, 56, 56), 16), "seq": ((128, 2048), 16), "vol": ((32, 8, 28, 28), 16)}
NO_BF16 = set()


def operators():
    out, i = [], 0
    for space, table in nets.TABLES.items():
        names = list(table) + list(nets.LAYERS[space])
        size = 5
        for at in range(0, len(names), size):
            ops = names[at:at + size]
            shape, batch = SHAPES[space]
            for n, p in enumerate(("fp32", "amp-bf16" if i % 2 else "bf16")):
                out.append(base("synthetic", "ops", dict(kind="ops", space=space, shape=list(shape), ops=ops), batch, 0, id="nops-%s-%d-%s" % (space, at // size, p), precision=p,
                                optimizer="sgd", loss="own", gb=4))
            i += 1
    for n, loss in enumerate(list(nets.LOSSES) + list(nets.CLASS_LOSSES)):
        p = ("fp32", "bf16", "amp-bf16", "amp-fp16")[n % 4] if loss != "bce" else "fp32"
        out.append(base("synthetic", "loss", dict(kind="loss", loss=loss, inp=256, out=2000), 2048, 0, id="nloss-%s" % loss, precision=p, optimizer="sgd", loss="own", gb=2))
    out.append(base("synthetic", "loss", dict(kind="ctc", inp=80, classes=500, length=200), 16, 0, id="nloss-ctc", precision="fp32", optimizer="adam", loss="own", gb=2))
    rnn = [dict(cell="lstm", proj_size=128), dict(cell="lstm", bidirectional=True, dropout=0.2, batch_first=True), dict(cell="gru", bidirectional=True, batch_first=True), dict(cell="gru", dropout=0.3),
           dict(cell="rnn", nonlinearity="relu", batch_first=True), dict(cell="lstm", bias=False), dict(cell="gru", bias=False, batch_first=True), dict(cell="lstm", bidirectional=True, proj_size=64, batch_first=True)]
    for n, k in enumerate(rnn):
        for p in ("fp32", PRECISIONS[1 + n % 4]):
            out.append(base("synthetic", "rnn", dict(kind="rnnnet", inp=200, hidden=384, layers=2 + n % 2, seq=120, **k), 48, 0, id="nrnn-%d-%s" % (n, p), precision=p, optimizer="adam", loss="own", gb=3))
    for n, cell in enumerate(("lstm", "gru", "rnn")):
        for p in ("fp32", ("bf16", "amp-bf16", "amp-fp16")[n]):
            out.append(base("synthetic", "rnn", dict(kind="rnncell", cell=cell, inp=256, hidden=512, seq=24), 256, 0, id="ncell-%s-%s" % (cell, p), precision=p, optimizer="adam", loss="own", gb=3))
    att, n = [], 0
    for e, heads in ((32, 16), (64, 8), (80, 8), (96, 8), (128, 8), (192, 4), (256, 4)):
        for mask in ("none", "causal", "bool", "float", "float_grad"):
            att.append(dict(head=e, heads=heads, mask=mask, seq=(384, 512, 333)[n % 3], dropout=0.1 if n % 4 == 3 else 0.0, kv=heads // 4 if n % 5 == 4 else None))
            n += 1
    for n, a in enumerate(att):
        out.append(base("synthetic", "attention", dict(kind="sdpa", **a), 8, 0, id="nsdpa-%d" % n, precision=("fp32", "bf16", "amp-bf16", "amp-fp16", "tf32")[(n + n // 5) % 5], optimizer="sgd", loss="own", gb=4))
    for n, (what, act, first) in enumerate((("encoder", "relu", False), ("encoder", "gelu", True), ("decoder", "relu", False), ("decoder", "gelu", True), ("mha", "relu", False), ("mha_weights", "relu", False), ("transformer", "relu", False))):
        for m, p in enumerate(("fp32", "amp-bf16", "bf16")):
            out.append(base("synthetic", "transformer", dict(kind="stack", what=what, d=512, heads=8, ff=1536, layers=3, seq=256, act=act, norm_first=first), 16, 0, id="nstack-%d-%s" % (n, p), precision=p,
                            optimizer=OPTIMIZERS[(n * 3 + m) % 6], checkpoint=m == 1 and what in ("encoder", "decoder"), loss="own", gb=4))
    for n, p in enumerate(PRECISIONS):
        out.append(base("synthetic", "cnn", dict(kind="unet", base=48, size=96), 16, 0, id="nunet-%s" % p, precision=p, optimizer=OPTIMIZERS[n], loss="own", gb=5))
    return out


def parallel():
    out = []
    models = [("gpt2-s", "nhf"), ("llama-s", "nhf"), ("stack", "n")]
    for tag, _ in models:
        for n, (par, p) in enumerate((
                (dict(kind="ddp", world=1), "fp32"), (dict(kind="ddp", world=2), "bf16"), (dict(kind="ddp", world=8), "fp32"), (dict(kind="ddp", world=8), "amp-bf16"),
                (dict(kind="ddp", world=4, bucket_view=True), "fp32"),
                (dict(kind="fsdp2", world=2, stage=3, mp=False), "fp32"), (dict(kind="fsdp2", world=8, stage=3, mp=False), "bf16"), (dict(kind="fsdp2", world=8, stage=2, mp=False), "fp32"),
                (dict(kind="fsdp2", world=2, stage=2, mp=True, reduce="float32"), "fp32"), (dict(kind="fsdp2", world=8, stage=3, mp=True, reduce="float32"), "fp32"), (dict(kind="fsdp2", world=8, stage=3, mp=True, reduce=None), "fp32"),
                (dict(kind="fsdp2", world=8, stage=2, mp=True, reduce=None), "bf16"))):
            if tag == "stack":
                j = base("synthetic", "transformer", dict(kind="stack", what="encoder", d=768, heads=12, ff=3072, layers=6, seq=256, act="gelu", norm_first=True), 8, 0, loss="own")
            else:
                kind, auto, over, batch, seq = TRANSFORMERS[tag]
                j = base("transformers", "transformer", dict(kind="transformers", name=tag, type=kind, settings=over), batch, 0, seq=seq, loss="own", auto=auto)
            j.update(id="npar-%s-%d" % (tag, n), precision=p, optimizer=("adamw", "adam", "sgd-momentum")[n % 3] if n % 4 else "adamw", parallel=par, gb=5)
            if n in (7, 9):
                j["checkpoint"] = True
            out.append(j)
    return out


def check():
    """A few jobs of the first set again, to see that the loop here gives the same figures."""
    return [dict(id="check-tv-resnet18-0", source="torchvision", family="cnn", batch=128, model=dict(kind="torchvision", name="resnet18", shape=[3, 224, 224]), loss="ce", precision="fp32", optimizer="adamw", checkpoint=False, gb=8),
            dict(id="check-tv-googlenet-1", source="torchvision", family="cnn", batch=32, model=dict(kind="torchvision", name="googlenet", shape=[3, 224, 224]), loss="ce", precision="amp-fp16", optimizer="adamw", checkpoint=False, gb=6),
            dict(id="check-hffsdp-gpt2", source="transformers", family="transformer", batch=2, seq=512, model=dict(kind="transformers", name="gpt2", type="gpt2", settings={}), loss="own", auto=C, checkpoint=False, precision="bf16",
                 optimizer="adamw", parallel=dict(kind="fsdp2", world=8, stage=3, mp=False), gb=5)]


def jobs():
    """All jobs, the groups in turn, so that a run cut short has some of each."""
    def by_turn(g):  # every model once, then every model a second time
        return sorted(g, key=lambda j: int(j["id"].rsplit("-", 1)[1]))

    groups = [operators(), by_turn(vision()), by_turn(language()), optimizers(), parallel()]
    out = check()
    longest = max(len(g) for g in groups)
    for i in range(longest):  # each group spread evenly over the whole
        for g in groups:
            lo, hi = i * len(g) // longest, (i + 1) * len(g) // longest
            out += g[lo:hi]
    assert len({j["id"] for j in out}) == len(out)
    return out
