"""Measures fine-tuning as PEFT and bitsandbytes do it: adapters on bert-base, gpt2, t5-small and Llama configurations, 4-bit
weights on the latter, with and without checkpointing and prepare_model_for_kbit_training.  A fresh process per job, several
at a time; a line of JSON each on stdout and in OUT/finetune.jsonl (job, result as jobs.py has it, versions), every
allocation and free in OUT/finetune-traces.jsonl.xz.  Models come from a configuration, with weights of nought.

    PYTHONPATH=SITE OUT=out python3 tools/measure/finetune.py          # SITE: peft, accelerate, bitsandbytes, psutil
    python3 tools/measure/finetune.py --list | --only qlora | --cpu-dry-run | --export FOLDER

--export writes the plain forward pass of each job (SHAPE.pt2, without adapters), for plimsoll estimate --train ...; it
and --cpu-dry-run (two layers, two steps; 4-bit jobs on the CPU) need no card."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import compress, device_used, events, log, process_bytes, record, trace  # noqa: E402

LLAMA = dict(model_type="llama", vocab_size=128256, max_position_embeddings=2048, num_key_value_heads=8, tie_word_embeddings=True)
MODELS = {
    "bert-base": ("AutoModelForMaskedLM", dict(model_type="bert")),
    "gpt2": ("AutoModelForCausalLM", dict(model_type="gpt2")),
    "t5-small": ("AutoModelForSeq2SeqLM", dict(model_type="t5", d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, vocab_size=32128, decoder_start_token_id=0)),
    "llama-1b": ("AutoModelForCausalLM", dict(LLAMA, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, head_dim=64)),
    "llama-3b": ("AutoModelForCausalLM", dict(LLAMA, hidden_size=3072, intermediate_size=8192, num_hidden_layers=28, num_attention_heads=24, head_dim=128)),
}
SMALL = dict(vocab_size=1000, hidden_size=256, intermediate_size=512, num_attention_heads=4, num_key_value_heads=2, head_dim=64)
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers")

# model, train, batch, seq, precision, checkpoint, prepare (prepare_model_for_kbit_training: 4-bit jobs alone)
ROWS = [
    ("bert-base", "lora-r16", 8, 256, "fp32", 0, 0),
    ("bert-base", "lora-r16", 8, 256, "bf16", 0, 0),
    ("bert-base", "lora-r16", 8, 256, "amp-bf16", 0, 0),
    ("bert-base", "lora-r16", 8, 256, "amp-bf16", 1, 0),
    ("gpt2", "lora-r8", 4, 512, "fp32", 0, 0),
    ("gpt2", "lora-r8", 4, 512, "bf16", 0, 0),
    ("gpt2", "lora-r8", 4, 512, "amp-bf16", 1, 0),
    ("t5-small", "lora-r8", 4, 256, "bf16", 0, 0),
    ("llama-1b", "lora-r16", 2, 512, "fp32", 0, 0),
    ("llama-1b", "lora-r16", 2, 512, "bf16", 0, 0),
    ("llama-1b", "lora-r16", 2, 512, "amp-bf16", 0, 0),
    ("llama-1b", "lora-r16", 2, 512, "bf16", 1, 0),
    ("llama-1b", "lora-r16", 2, 512, "amp-bf16", 1, 0),
    ("llama-1b", "lora-r64:all-linear", 2, 512, "bf16", 0, 0),
    ("llama-1b", "qlora-r16", 2, 512, "bf16", 0, 0),
    ("llama-1b", "qlora-r16", 2, 512, "bf16", 1, 0),
    ("llama-1b", "qlora-r16", 2, 512, "amp-bf16", 0, 1),
    ("llama-1b", "qlora-r16", 2, 512, "amp-bf16", 1, 1),
    ("llama-1b", "qlora-r16", 2, 512, "fp32", 0, 1),
    ("llama-1b", "qlora-r64:all-linear", 2, 512, "bf16", 0, 0),
    ("llama-1b", "qlora-r16", 1, 256, "bf16", 0, 0),
    ("llama-1b", "qlora-r16", 4, 1024, "amp-bf16", 1, 1),
    ("llama-3b", "qlora-r16", 2, 512, "bf16", 1, 0),
    ("llama-3b", "qlora-r64:all-linear", 2, 512, "amp-bf16", 1, 1),
    ("llama-3b", "qlora-r16", 1, 512, "bf16", 0, 0),
    ("gpt2", "qlora-r8", 4, 512, "bf16", 0, 0),
    ("bert-base", "qlora-r16", 8, 256, "amp-bf16", 0, 1),
]


def jobs():
    out = []
    for model, train, batch, seq, precision, checkpoint, prepare in ROWS:
        name = "-".join([model, train.replace(":", "-"), "%dx%d" % (batch, seq), precision] + ["ckpt"] * checkpoint + ["prepared"] * prepare)
        out.append(dict(id="ft-" + name, model=dict(kind="transformers", name=model), train=train, batch=batch, seq=seq, precision=precision,
                        optimizer="adamw", loss="own", checkpoint=bool(checkpoint), prepare=bool(prepare)))
    return out


def build(job, small=False, meta=False):
    """The plain model on the CPU, all nought; meta: without values."""
    import torch
    import transformers
    auto, settings = MODELS[job["model"]["name"]]
    settings = dict(settings)
    config = transformers.CONFIG_MAPPING[settings.pop("model_type")](**settings)
    config.use_cache = False
    for key in LAYERS if small else ():
        if hasattr(config, key):
            setattr(config, key, 2)
    for key, value in SMALL.items() if small else ():
        if settings.get(key):
            setattr(config, key, value)
    job["config"], job["auto"] = config.to_dict(), auto
    with torch.device("meta"):
        model = getattr(transformers, auto).from_config(config)
    if meta:
        return model.train()
    model.to_empty(device="cpu")
    for t in list(model.parameters()) + list(model.buffers()):
        t.data.zero_()
    model.tie_weights()
    return model.train()


def quantise(model, dtype):
    """Linear and Conv1D by Linear4bit, as transformers.integrations.bitsandbytes does it; nf4 with double quantisation."""
    import bitsandbytes as bnb
    import torch
    from transformers.pytorch_utils import Conv1D
    keep = {n.rsplit(".", 1)[0] for n, _ in list(model.named_parameters())[-1:]}
    head = model.get_output_embeddings()
    keep |= {n for n, m in model.named_modules() if m is head}
    for name, m in list(model.named_modules()):
        if name in keep or not (isinstance(m, Conv1D) or type(m) is torch.nn.Linear):
            continue
        w = m.weight.data.T.contiguous() if isinstance(m, Conv1D) else m.weight.data
        new = bnb.nn.Linear4bit(w.shape[1], w.shape[0], m.bias is not None, compute_dtype=dtype, compress_statistics=True, quant_type="nf4", device="meta")
        new.weight = bnb.nn.Params4bit(w, requires_grad=False, compress_statistics=True, quant_type="nf4", module=new)
        if m.bias is not None:
            new.bias = m.bias
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent) if parent else model, last, new.train())
    return model


def adapt(job, model, device):
    """The model on the device with its adapters."""
    import torch
    from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
    kind, _, modules = job["train"].partition(":")
    four_bit, rank = kind.startswith("qlora"), int(kind.rpartition("-r")[2])
    low = torch.bfloat16
    if four_bit or job["precision"] == "bf16":
        model = model.to(low)
    if four_bit:
        model = quantise(model, low).to(device)
        model.is_loaded_in_4bit = True
    if four_bit and job["prepare"]:
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=job["checkpoint"], gradient_checkpointing_kwargs={"use_reentrant": False})
    elif job["checkpoint"]:
        model.gradient_checkpointing_enable()
    model = get_peft_model(model, LoraConfig(r=rank, lora_alpha=16, target_modules=modules or None))
    return model.to(device) if not four_bit else model


def train(job, device, steps, mark, small=False):
    import torch
    torch.manual_seed(0)
    model = adapt(job, build(job, small), device)
    parameters = list(model.parameters())
    info = dict(params=sum(p.numel() for p in parameters), trainable=sum(p.numel() for p in parameters if p.requires_grad),
                param_bytes=sum(p.numel() * p.element_size() for p in parameters), buffer_bytes=sum(b.numel() * b.element_size() for b in model.buffers()),
                types=sorted({str(p.dtype) for p in parameters if p.requires_grad}), adapted=sum("lora_A" in n for n, _ in model.named_parameters()))
    mark("model")
    opt = torch.optim.AdamW(parameters)
    ids = torch.zeros(2 if small else job["batch"], 16 if small else job["seq"], dtype=torch.long)
    amp = job["precision"] == "amp-bf16"

    def step():
        opt.zero_grad(set_to_none=True)
        batch = dict(input_ids=ids.to(device), labels=ids.to(device))
        mark("input")
        with torch.autocast(device, dtype=torch.bfloat16, enabled=amp):
            loss = model(**batch).loss
        mark("forward")
        loss.backward()
        mark("backward")
        opt.step()
        mark("optimizer")

    for _ in range(steps):
        step()
    return info


def measure(job):
    import torch
    record()
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    start = process_bytes()
    res = dict(ctx=None if start is None else start - torch.cuda.memory_reserved())
    phases, marks = [], []

    def mark(name):
        torch.cuda.synchronize()
        marks.append([time.time_ns() // 1000, name])
        if name == "model":
            res["after_model"], res["load_reserved"] = torch.cuda.memory_allocated(), torch.cuda.max_memory_reserved()
        else:
            phases.append([name, torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()])
        res["peak_reserved"] = max(res.get("peak_reserved", 0), torch.cuda.max_memory_reserved())
        torch.cuda.reset_peak_memory_stats()

    t = time.time()
    info = train(job, "cuda", 3, mark)
    torch.cuda.synchronize()
    nvml = process_bytes()
    res.update(info)
    res.update(phases=phases, peak_allocated=max(p[2] for p in phases), nvml=nvml, overhead=None if nvml is None else nvml - torch.cuda.memory_reserved(),
               retries=torch.cuda.memory_stats().get("num_alloc_retries", 0), device_used=device_used(), seconds=round(time.time() - t, 2))
    evs, times = events(trace())
    at, i = [], 0
    for when, name in marks:
        while i < len(times) and times[i] <= when:
            i += 1
        at.append([i, name])
    return res, dict(events=evs, marks=at, peak_allocated=res["peak_allocated"], peak_reserved=res["peak_reserved"], nvml=nvml)


def versions():
    from importlib.metadata import PackageNotFoundError, version
    out = {}
    for name in ("torch", "transformers", "peft", "bitsandbytes", "accelerate"):
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            out[name] = None
    return out


def child(path, mode):
    """One job in this process; leaves PATH.out and PATH.trace."""
    job = json.load(open(path))
    out = dict(job=job)
    try:
        import torch
        torch.set_num_threads(2)
        if mode == "cpu":
            seen = []
            info = train(dict(job, precision="fp32" if job["precision"] == "amp-bf16" else job["precision"]), "cpu", 2, seen.append, small=True)
            out["result"] = dict(info, marks=len(seen))
        else:
            res, tr = measure(job)
            out["result"] = res
            with open(path + ".trace", "w") as f:
                json.dump(dict(job={k: v for k, v in job.items() if k != "config"}, result=tr), f, separators=(",", ":"))
        out["versions"] = versions()
    except Exception as e:
        out["error"] = "".join(traceback.format_exception_only(type(e), e))[-600:]
        out["where"] = traceback.format_exc()[-900:]
    with open(path + ".out", "w") as f:
        json.dump(out, f, separators=(",", ":"))


def export(todo, folder):
    import torch
    os.makedirs(folder, exist_ok=True)
    for job in todo:
        name = os.path.join(folder, "%s-%dx%d" % (job["model"]["name"], job["batch"], job["seq"]))
        if os.path.exists(name + ".pt2"):
            continue
        model = build(job, meta=True)
        ids = torch.zeros(job["batch"], job["seq"], dtype=torch.long, device="meta")
        torch.export.save(torch.export.export(model, (), dict(input_ids=ids, labels=ids.clone()), strict=False), name + ".pt2")
        with open(name + ".json", "w") as f:
            json.dump(job["config"], f)
        log(name)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--budget", type=float, default=280, help="seconds; jobs not started by then are left out")
    p.add_argument("--timeout", type=float, default=90, help="seconds a job may take")
    p.add_argument("--workers", type=int, default=6)
    p.add_argument("--out", default=os.environ.get("OUT", "out"))
    p.add_argument("--only", default="", help="part of an id; several with commas")
    p.add_argument("--list", action="store_true")
    p.add_argument("--cpu-dry-run", action="store_true")
    p.add_argument("--export", default="", metavar="FOLDER")
    p.add_argument("--one", default="", help="a file that holds one job")
    p.add_argument("--mode", default="cuda")
    a = p.parse_args()
    if a.one:
        return child(a.one, a.mode)
    todo = [j for j in jobs() if not a.only or any(o in j["id"] for o in a.only.split(","))]
    if a.list:
        return print("\n".join(j["id"] for j in todo))
    if a.export:
        return export(todo, a.export)
    start, queue, running, bad = time.time(), list(todo), {}, 0
    os.makedirs(a.out, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(a.out, "finetune.jsonl"), "w") as lines, \
            open(os.path.join(a.out, "finetune-traces.jsonl"), "w") as traces:
        while queue or running:
            left = a.budget - (time.time() - start)
            if left <= 0 and queue:
                log("budget spent: not started:", " ".join(j["id"] for j in queue))
                queue = []
            while queue and len(running) < a.workers:
                job = queue.pop(0)
                path = os.path.join(folder, job["id"])
                with open(path, "w") as f:
                    json.dump(job, f)
                command = [sys.executable, os.path.abspath(__file__), "--one", path, "--mode", "cpu" if a.cpu_dry_run else "cuda"]
                running[path] = (subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), job, time.time())
            for path, (process, job, since) in list(running.items()):
                if process.poll() is None:
                    if time.time() - since < a.timeout and left > -30:
                        continue
                    process.kill()
                    process.wait()
                running.pop(path)
                line = open(path + ".out").read() if os.path.exists(path + ".out") else json.dumps(dict(job=job, error="ended early or timed out"))
                if "error" in json.loads(line):
                    bad += 1
                    log("FAILED", job["id"], json.loads(line)["error"].strip()[-300:])
                print(line, flush=True)
                lines.write(line + "\n")
                lines.flush()
                if os.path.exists(path + ".trace"):
                    traces.write(open(path + ".trace").read() + "\n")
                    traces.flush()
            time.sleep(0.05)
    log("%d jobs, %d failed, %.0f s" % (len(todo), bad, time.time() - start))
    compress(os.path.join(a.out, "finetune-traces.jsonl"))


if __name__ == "__main__":
    main()
