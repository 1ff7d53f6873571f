"""A job of utilization_jobs.py as a training loop: its model is built without values on the CPU, and put on a card by place()."""
import math
import statistics
import time

WARM_STEPS, WARM_S = 3, 0.5


class without_values:
    """Parameters made inside have no storage; buffers do (position tables, indices: they are read)."""

    def __enter__(self):
        import torch
        self.old = old = torch.nn.Module.register_parameter

        def register(module, name, param):
            old(module, name, param)
            p = module._parameters.get(name)
            if p is not None and not p.is_meta:
                new = type(p)(p.detach().to("meta"), requires_grad=p.requires_grad)
                new.__dict__.update(p.__dict__)
                module._parameters[name] = new

        torch.nn.Module.register_parameter = register

    def __exit__(self, *a):
        import torch
        torch.nn.Module.register_parameter = self.old


def language(job):
    import transformers
    from build import language_inputs
    config = dict(job["config"])
    config = transformers.CONFIG_MAPPING[config.pop("model_type")].from_dict(config)
    config.use_cache = False
    cls = getattr(transformers, job["auto"])
    model = cls.from_config(config) if job["auto"].startswith("Auto") else cls(config)
    if job.get("checkpoint"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model, language_inputs(job, config)


def plain(job):
    """The model with its values, on the CPU, and its inputs."""
    import torch
    import build
    import synthetic
    if job["model"]["kind"] in synthetic.KINDS:
        model = synthetic.build(job)
        inputs = model.inputs
    elif job["model"]["kind"] == "transformers" and "settings" not in job["model"]:
        model, inputs = language(job)
    else:
        model, inputs = build.build(job)
    if job.get("samples"):
        def inputs(batch):
            return [("input_values", torch.zeros(batch, job["samples"]), "normal"), ("labels", torch.randint(0, model.config.num_labels, (batch,)), "int")]
    model = synthetic.adapt(job, model.train())
    return model.to(torch.bfloat16) if job["precision"] == "bf16" else model, inputs


def materialise(job, model, device):
    """The model on the device with small random values; buffers, shared and flattened parameters as they were."""
    import torch
    if device == "meta" or not any(p.is_meta for p in model.parameters()):
        return model.to(device)
    places = {}
    for m in model.modules():
        for name, p in m._parameters.items():
            if p is not None:
                places.setdefault(id(p), []).append((m, name))
    buffers = [(m, n, b) for m in model.modules() for n, b in m._buffers.items() if b is not None]
    embeddings = {id(m._parameters["weight"]) for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    kinds = {(id(m), n): key in embeddings for key, ps in places.items() for m, n in ps}
    model.to_empty(device=device)
    for first, *more in places.values():
        m, name = first
        p = m._parameters[name]
        for o, n in more:
            o._parameters[n] = p
        with torch.no_grad():
            if p.dim() < 2:
                p.fill_(0.0 if "bias" in name else 1.0)
            elif job["source"] == "transformers" or kinds[id(m), name]:
                p.normal_(0, 0.02)
            else:
                bound = 1 / math.sqrt(max(1, p.numel() // p.shape[0]))
                p.uniform_(-bound, bound)
    for m, n, b in buffers:
        if not b.is_meta:
            m._buffers[n].copy_(b)
        elif n == "running_var":
            m._buffers[n].fill_(1)
        else:
            m._buffers[n].zero_()
    for m in model.modules():
        if isinstance(m, torch.nn.RNNBase):
            m._init_flat_weights()
    return model


class Training:
    """A job's loop.  Building touches no card; place() does."""

    def __init__(self, job, size=None):
        import torch
        self.job, self.size, self.how = job, size or job["batch"], "empty"
        torch.manual_seed(0)
        try:
            with without_values():
                self.model, inputs = plain(job)
        except Exception as e:  # a model that reads its parameters while it is built
            self.how = "values: " + repr(e)[:120]
            self.model, inputs = plain(job)
        self.host = inputs(self.size)
        self.params = sum(p.numel() for p in self.model.parameters())
        self.trainable = sum(p.numel() for p in self.model.parameters() if p.requires_grad)

    def place(self, device):
        import torch
        from build import optimizer
        job, precision = self.job, self.job["precision"]
        self.device = device
        tf32 = precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = tf32 or job.get("cudnn_tf32", True)
        torch.backends.cudnn.benchmark = bool(job.get("cudnn_benchmark"))
        self.model = materialise(job, self.model, device)
        if job.get("channels_last"):
            self.model = self.model.to(memory_format=torch.channels_last)
        self.opt = optimizer({"sgd-momentum-fused": "sgd-fused"}.get(job["optimizer"], job["optimizer"]), self.model.parameters())
        self.amp = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}.get(precision)
        self.scaler = torch.amp.GradScaler(device) if precision == "amp-fp16" else None
        self.turns = job.get("accumulate", 1)

    def copy(self):
        return {n: t.to(self.device, copy=self.device != "cuda") for n, t, _ in self.host}

    def loss(self, batch):
        import synthetic
        from build import call
        if self.job["model"]["kind"] in synthetic.KINDS:
            return synthetic.loss(self.model(batch["x"]), batch["y"])
        return call(self.job, self.model, batch)

    def compute(self, batch):
        """Forward, loss, backward of a batch on the card."""
        import torch
        for n, _, kind in self.host:
            if kind == "normal":
                batch[n].normal_()
        for n, _, kind in self.host:
            if kind != "int" and self.job["precision"] == "bf16":
                batch[n] = batch[n].to(torch.bfloat16)
            if self.job.get("channels_last") and batch[n].dim() == 4:
                batch[n] = batch[n].to(memory_format=torch.channels_last)
        if self.amp:
            with torch.autocast(self.device, dtype=self.amp):
                loss = self.loss(batch)
        else:
            loss = self.loss(batch)
        (self.scaler.scale(loss) if self.scaler else loss).backward()

    def update(self):
        if self.scaler:
            self.scaler.step(self.opt)
            self.scaler.update()
        else:
            self.opt.step()

    def step(self, mark=None):
        """One step.  mark() when the first copy is over: it waits for all that was issued before."""
        self.opt.zero_grad(set_to_none=True)
        for turn in range(self.turns):
            batch = self.copy()
            if mark and turn == 0:
                mark()
            self.compute(batch)
        self.update()

    def sync(self):
        if self.device == "cuda":
            import torch
            torch.cuda.synchronize()

    def warm(self, steps=WARM_STEPS, seconds=WARM_S):
        t, n = time.perf_counter(), 0
        while n < steps or time.perf_counter() - t < seconds:
            self.step()
            n += 1
            if n <= steps or n % 8 == 0:
                self.sync()
        self.sync()
        return (time.perf_counter() - t) / n

    def host_times(self, times=4):
        """Milliseconds of a copy with the card idle, and of issuing the rest of a step: medians."""
        copy, issue = [], []
        for _ in range(times):
            self.sync()
            a = time.perf_counter()
            batches = [self.copy() for _ in range(self.turns)]
            b = time.perf_counter()
            self.opt.zero_grad(set_to_none=True)
            for batch in batches:
                self.compute(batch)
            self.update()
            c = time.perf_counter()
            del batches, batch
            copy.append(b - a)
            issue.append(c - b)
        self.sync()
        return 1e3 * statistics.median(copy), 1e3 * statistics.median(issue)
