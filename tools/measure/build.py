"""Builds what a job describes: the model, its inputs, its optimizer, and the loss of its outputs.
Nothing is downloaded: Hugging Face models come from a configuration, with random weights."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import nets

OWN = ("kind",)


def build(job, meta=False):
    """The model in training mode (on the CPU; without values where meta is set) and inputs(batch) ->
    [(name, tensor, kind)]."""
    if meta:
        try:
            with torch.device("meta"):
                model, _ = build(job)
            with torch.device("cpu"):
                return model, inputs_of(job, model)
        except Exception:  # some models read values while they are built
            model, inputs = build(job)
            return model.to("meta"), inputs
    spec = job["model"]
    kind = spec["kind"]
    if kind == "torchvision":
        model, inputs = vision(job, spec)
    elif kind == "transformers":
        model, inputs = language(job, spec)
    else:
        model = nets.NETS[kind](**{k: v for k, v in spec.items() if k not in OWN})
        inputs = model.inputs
        if job.get("checkpoint"):
            model.checkpoint = True
    model.train()
    return model, inputs


def inputs_of(job, model):
    kind = job["model"]["kind"]
    if kind == "torchvision":
        return vision_inputs(job["model"])
    return language_inputs(job, model.config) if kind == "transformers" else model.inputs


def vision(job, spec):
    import torchvision
    name, extra = spec["name"], {"weights": None}
    dense = name.startswith(("deeplab", "fcn", "lraspp"))
    if dense:
        extra["weights_backbone"] = None
    if name in ("googlenet", "inception_v3"):
        extra.update(init_weights=False, aux_logits=True)
    model = torchvision.models.get_model(name, **extra)
    return model, vision_inputs(spec)


def vision_inputs(spec):
    dense = spec["name"].startswith(("deeplab", "fcn", "lraspp"))
    shape = spec["shape"]
    classes = 21 if dense else 400 if len(shape) == 4 else 1000

    def inputs(batch):
        y = (batch, shape[1], shape[2]) if dense else (batch,)
        return [("x", torch.zeros(batch, *shape), "normal"), ("y", torch.randint(0, classes, y), "int")]

    return inputs


def language(job, spec):
    import transformers
    config = transformers.AutoConfig.for_model(spec["type"], **spec["settings"])
    config.use_cache = False
    job["config"] = config.to_dict()
    cls = getattr(transformers, job["auto"])
    model = cls.from_config(config) if job["auto"].startswith("Auto") else cls(config)
    if job.get("checkpoint"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model, language_inputs(job, config)


def language_inputs(job, config):
    size = getattr(config, "image_size", None) or 224
    if isinstance(size, (list, tuple)):
        size = size[0]
    auto, seq = job["auto"], job.get("seq", 0)

    def inputs(batch):
        image = ("pixel_values", torch.zeros(batch, 3, size, size), "normal")
        if auto in ("AutoModelForCausalLM", "AutoModelForMaskedLM", "AutoModelForSeq2SeqLM"):
            ids = torch.randint(3, min(config.vocab_size, 20000), (batch, seq))
            return [("input_ids", ids, "int"), ("labels", ids.clone(), "int")]
        if auto == "AutoModelForSequenceClassification":
            return [("input_ids", torch.randint(3, 20000, (batch, seq)), "int"), ("labels", torch.randint(0, 2, (batch,)), "int")]
        if auto.endswith("ForImageClassification"):
            return [image, ("labels", torch.randint(0, config.num_labels, (batch,)), "int")]
        if auto == "AutoModelForSemanticSegmentation":
            return [image, ("labels", torch.randint(0, config.num_labels, (batch, size, size)), "int")]
        if auto == "AutoModelForAudioClassification":
            return [("input_values", torch.zeros(batch, 16000), "normal"), ("labels", torch.randint(0, config.num_labels, (batch,)), "int")]
        if auto == "WhisperForConditionalGeneration":
            return [("input_features", torch.zeros(batch, config.num_mel_bins, 3000), "normal"), ("labels", torch.randint(3, 10000, (batch, seq)), "int")]
        vs = config.vision_config.image_size
        return [("input_ids", torch.randint(3, 10000, (batch, seq)), "int"), ("pixel_values", torch.zeros(batch, 3, vs, vs), "normal")]

    return inputs


def takes(job, names):
    """Which inputs go to forward, in order: all but the labels where the loss is outside the model."""
    return [n for n in names if not (job["loss"] == "ce" and n == "y")]


def call(job, model, batch):
    """The loss.  batch: name -> tensor."""
    if job["model"]["kind"] == "transformers":
        extra = {"return_loss": True} if job["auto"] in ("CLIPModel", "SiglipModel") else {}
        return model(**batch, **extra).loss
    if job["loss"] == "own":
        return model(*batch.values())
    out, y = model(batch["x"]), batch["y"]
    if isinstance(out, dict):
        return F.cross_entropy(out["out"], y)
    if isinstance(out, tuple):  # logits and auxiliary classifiers
        main, aux = out[0], [a for a in out[1:] if a is not None]
        return F.cross_entropy(main, y) + sum(0.3 * F.cross_entropy(a, y) for a in aux)
    return F.cross_entropy(out, y)


class Lion(torch.optim.Optimizer):
    """Sign of an interpolated momentum, one parameter after another."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.zeros_like(p)
                m = state["exp_avg"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                update = m * b1 + p.grad * (1 - b1)
                p.add_(update.sign_(), alpha=-group["lr"])
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


def optimizer(name, params):
    o, lr = torch.optim, 1e-4
    params = [p for p in params if p.requires_grad]
    table = {
        "sgd": lambda: o.SGD(params, lr=lr), "sgd-momentum": lambda: o.SGD(params, lr=lr, momentum=0.9), "sgd-nesterov": lambda: o.SGD(params, lr=lr, momentum=0.9, nesterov=True, weight_decay=1e-4),
        "sgd-fused": lambda: o.SGD(params, lr=lr, momentum=0.9, fused=True), "adam": lambda: o.Adam(params, lr=lr), "adam-fused": lambda: o.Adam(params, lr=lr, fused=True),
        "adam-decay": lambda: o.Adam(params, lr=lr, weight_decay=0.01), "adam-single": lambda: o.Adam(params, lr=lr, foreach=False), "adamw": lambda: o.AdamW(params, lr=lr),
        "adamw-fused": lambda: o.AdamW(params, lr=lr, fused=True), "adamw-amsgrad": lambda: o.AdamW(params, lr=lr, amsgrad=True), "adamw-single": lambda: o.AdamW(params, lr=lr, foreach=False),
        "rmsprop": lambda: o.RMSprop(params, lr=lr), "rmsprop-centered": lambda: o.RMSprop(params, lr=lr, centered=True, momentum=0.9), "adagrad": lambda: o.Adagrad(params, lr=lr),
        "adagrad-fused": lambda: o.Adagrad(params, lr=lr, fused=True), "adadelta": lambda: o.Adadelta(params, lr=lr), "adamax": lambda: o.Adamax(params, lr=lr), "nadam": lambda: o.NAdam(params, lr=lr),
        "radam": lambda: o.RAdam(params, lr=lr), "adafactor": lambda: o.Adafactor(params, lr=lr), "asgd": lambda: o.ASGD(params, lr=lr), "rprop": lambda: o.Rprop(params, lr=lr),
        "muon": lambda: o.Muon(params, lr=lr), "lion": lambda: Lion(params, lr=lr),
    }
    return table[name]()


def blocks(model):
    """The repeated blocks: the children of the largest ModuleLists that do not lie in another one."""
    lists = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.ModuleList) and len(m) > 1]
    top = [(n, m) for n, m in lists if not any(n.startswith(o + ".") for o, _ in lists)]
    return [b for _, m in top for b in m]


def wrap(job, model, device):
    """One rank of a data-parallel job over a process group that sends nothing."""
    par = job.get("parallel")
    if not par:
        return model
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    dist.init_process_group("fake", rank=0, world_size=par["world"], store=FakeStore())
    if par["kind"] == "ddp":
        from torch.nn.parallel import DistributedDataParallel
        ids = [0] if device == "cuda" else None
        ddp = DistributedDataParallel(model, device_ids=ids, gradient_as_bucket_view=bool(par.get("bucket_view")))

        def hook(state, bucket):  # the fake group's own all-reduce gives back nothing
            done = torch.futures.Future(devices=[torch.device("cuda", 0)] if device == "cuda" else None)
            done.set_result(bucket.buffer().div_(par["world"]))
            return done

        ddp.register_comm_hook(None, hook)
        return ddp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    mesh = init_device_mesh(device, (par["world"],))
    extra = {}
    if par["mp"]:
        reduce = {None: None, "float32": torch.float32}[par.get("reduce")]
        extra["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce)
    for b in blocks(model):
        fully_shard(b, mesh=mesh, reshard_after_forward=par["stage"] == 3, **extra)
    fully_shard(model, mesh=mesh, reshard_after_forward=par["stage"] == 3, **extra)
    return model


def export(job):
    """models/model.json of torch.export's archive of the forward pass, from meta tensors, stack traces taken out."""
    import io
    import json
    import zipfile
    if job["model"].get("name") in ("googlenet", "inception_v3"):  # their outputs are named tuples
        from torchvision.models import GoogLeNetOutputs, InceptionOutputs
        from torch.utils import _pytree
        for t in (GoogLeNetOutputs, InceptionOutputs):
            _pytree._register_namedtuple(t, serialized_type_name=t.__module__ + "." + t.__name__)
    model, inputs = build(job, meta=True)
    dtype = torch.bfloat16 if job["precision"] == "bf16" else None
    model = model.to(device="meta", dtype=dtype) if dtype else model.to("meta")
    batch = {}
    for name, t, kind in inputs(job["batch"]):
        t = torch.empty_like(t, device="meta")
        if kind != "int" and dtype:
            t = t.to(dtype)
        if job.get("channels_last") and t.dim() == 4:
            t = t.to(memory_format=torch.channels_last)
        batch[name] = t
    if job.get("channels_last"):
        model = model.to(memory_format=torch.channels_last)
    use = takes(job, list(batch))
    if job["model"]["kind"] == "transformers":
        kw = {n: batch[n] for n in use}
        if job["auto"] in ("CLIPModel", "SiglipModel"):
            kw["return_loss"] = True
        ep = torch.export.export(model, (), kw, strict=False)
    else:
        ep = torch.export.export(model, tuple(batch[n] for n in use), strict=False)
    f = io.BytesIO()
    torch.export.save(ep, f)
    z = zipfile.ZipFile(f)
    g = json.loads(z.read([n for n in z.namelist() if n.endswith("models/model.json")][0]))
    for n in g["graph_module"]["graph"]["nodes"]:
        if "metadata" in n:
            n["metadata"].pop("stack_trace", None)
    return g
