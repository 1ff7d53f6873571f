"""The Python package held against a card: jobs measured one after the other, then asked of plimsoll.estimate.

    python_road.py measure OUT.jsonl            on a card: a fresh process per job, the loop and the figures of jobs.py
    python_road.py estimate OUT.jsonl [--csv F] without one: plimsoll.estimate(model, inputs, ...) of each, and a table
    python_road.py estimate --all               the same without measurements: which way each model is captured
    python_road.py list

What is measured is peak_reserved + overhead, the process's memory as NVML has it. Of these models torch.export refuses
the first twelve, which draw at random whether to skip a layer (`layerdrop`, which is 0 here, so that none is); they are
traced under fake tensors. The models are built on the meta device for the estimates.
Needs PyTorch, torchvision and transformers; the estimates also the package (PYTHONPATH=python) and its library.
"""
import argparse
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import jobs as runner  # noqa: E402  sets the environment up, before PyTorch
from common import log  # noqa: E402

C, M, S, IMG, AUD = ("AutoModelForCausalLM", "AutoModelForMaskedLM", "AutoModelForSeq2SeqLM", "AutoModelForImageClassification",
                     "AutoModelForAudioClassification")
S2S = dict(d_model=768, encoder_layers=4, decoder_layers=4, encoder_attention_heads=12, decoder_attention_heads=12,
           encoder_ffn_dim=3072, decoder_ffn_dim=3072, max_position_embeddings=1024, vocab_size=40000, encoder_layerdrop=0.0, decoder_layerdrop=0.0)
AUDIO = dict(num_labels=12, layerdrop=0.0, num_hidden_layers=8)

# name: (model type, class, settings, batch, sequence, precision, optimizer)
TRANSFORMERS = {
    # refused by torch.export
    "opt": ("opt", C, dict(num_hidden_layers=10), 8, 512, "amp-bf16", "adamw"),
    "bart": ("bart", S, S2S, 12, 256, "fp32", "adam"),
    "whisper": ("whisper", "WhisperForConditionalGeneration", dict(
        d_model=512, encoder_layers=4, decoder_layers=4, encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048,
        decoder_ffn_dim=2048, pad_token_id=0, decoder_start_token_id=1, bos_token_id=1, eos_token_id=2), 6, 96, "amp-bf16", "adamw-fused"),
    "wav2vec2": ("wav2vec2", AUD, AUDIO, 24, 0, "fp32", "sgd-momentum"),
    "hubert": ("hubert", AUD, AUDIO, 16, 0, "amp-bf16", "adamw"),
    "wavlm": ("wavlm", AUD, AUDIO, 12, 0, "fp32", "adam"),
    "pegasus": ("pegasus", S, dict(S2S, vocab_size=60000), 8, 256, "bf16", "adamw"),
    "m2m_100": ("m2m_100", S, dict(S2S, vocab_size=50000), 8, 192, "amp-bf16", "adafactor"),
    "marian": ("marian", S, dict(S2S, decoder_start_token_id=0, pad_token_id=0), 16, 128, "fp32", "adagrad"),
    "mbart": ("mbart", S, S2S, 10, 256, "bf16", "sgd"),
    "blenderbot": ("blenderbot", S, dict(S2S, d_model=1024, encoder_attention_heads=16, decoder_attention_heads=16, encoder_layers=2, decoder_layers=8),
                   6, 128, "amp-bf16", "adamw"),
    "biogpt": ("biogpt", C, dict(hidden_size=768, num_hidden_layers=8, num_attention_heads=12, intermediate_size=3072), 8, 384, "amp-bf16", "adam"),
    # exported
    "gpt2": ("gpt2", C, dict(n_layer=10), 8, 512, "fp32", "adamw"),
    "llama": ("llama", C, dict(hidden_size=1024, intermediate_size=2816, num_hidden_layers=10, num_attention_heads=16, num_key_value_heads=4,
                               vocab_size=48000), 6, 1024, "bf16", "adamw-fused"),
    "bert": ("bert", M, dict(num_hidden_layers=10), 24, 256, "amp-bf16", "adamw"),
    "qwen2": ("qwen2", C, dict(hidden_size=896, intermediate_size=2432, num_hidden_layers=8, num_attention_heads=14, num_key_value_heads=2,
                               vocab_size=60000), 4, 768, "bf16", "sgd"),
    "t5": ("t5", S, dict(d_model=768, d_kv=64, d_ff=2048, num_layers=4, num_heads=12, vocab_size=32000, decoder_start_token_id=0), 8, 256, "fp32",
           "adafactor"),
    "xlnet": ("xlnet", C, dict(d_model=768, n_layer=6, n_head=12, d_inner=3072), 8, 192, "fp32", "adam"),
    "vit": ("vit", IMG, dict(num_hidden_layers=10, num_labels=500), 32, 0, "amp-bf16", "adamw"),
    "regnet": ("regnet", IMG, dict(num_labels=500), 32, 0, "amp-bf16", "sgd-momentum"),
}
# name: (sample shape, batch, precision, optimizer)
TORCHVISION = {
    "googlenet": ((3, 224, 224), 48, "fp32", "adam"), "resnet50": ((3, 224, 224), 40, "fp32", "sgd-momentum"),
    "regnet_y_3_2gf": ((3, 224, 224), 40, "amp-bf16", "sgd-momentum"), "efficientnet_b1": ((3, 240, 240), 32, "amp-bf16", "rmsprop"),
    "convnext_tiny": ((3, 224, 224), 40, "bf16", "adamw"), "vit_b_16": ((3, 224, 224), 24, "bf16", "adamw"),
    "swin_t": ((3, 224, 224), 28, "fp32", "adamw"), "mobilenet_v3_large": ((3, 224, 224), 96, "fp32", "sgd"),
    "densenet121": ((3, 224, 224), 24, "amp-bf16", "adam"), "fcn_resnet50": ((3, 224, 224), 10, "amp-bf16", "sgd-momentum"),
}


def all_jobs():
    out = []
    for name, (kind, auto, settings, batch, seq, precision, optimizer) in TRANSFORMERS.items():
        job = dict(id="python-" + name, family="transformer", source="transformers", batch=batch, auto=auto, loss="own", precision=precision,
                   optimizer=optimizer, checkpoint=False, model=dict(kind="transformers", type=kind, settings=dict(settings)))
        if seq:
            job["seq"] = seq
        out.append(job)
    for name, (shape, batch, precision, optimizer) in TORCHVISION.items():
        out.append(dict(id="python-" + name, family="cnn", source="torchvision", batch=batch, loss="ce", precision=precision, optimizer=optimizer,
                        checkpoint=False, model=dict(kind="torchvision", name=name, shape=list(shape))))
    return out


# ---- on the card ----

def measure(todo, path, budget, limit, mode="cuda"):
    """A process per job, one at a time: jobs.py's fork, or a fresh interpreter where a forked child has no card."""
    import torch
    import torchvision  # noqa: F401  imported once, before the forks
    import transformers
    import build  # noqa: F401
    for name in ("transformers.modeling_utils", "torch.optim"):
        __import__(name)
    for job in todo:  # their modules too: an import takes longer than some of the jobs
        if job["source"] == "transformers":
            getattr(transformers, job["auto"])
    torch.set_num_threads(1)
    if mode == "cuda" and (torch.cuda.is_initialized() or not runner.fork_works()):
        runner.FRESH = True
        log("forked children cannot use the card: a fresh interpreter a job")
    start, bad = time.time(), 0
    with open(path, "w") as out, tempfile.TemporaryDirectory() as folder:
        for n, job in enumerate(todo):
            if time.time() - start > budget - limit:
                log("budget spent: %d jobs not started" % (len(todo) - n))
                break
            since = time.time()
            pid = runner.fork(job, folder, mode)
            while os.waitpid(pid, os.WNOHANG)[0] == 0:
                if time.time() - since > limit:
                    os.kill(pid, 9)
                    os.waitpid(pid, 0)
                    break
                time.sleep(0.02)
            left = os.path.join(folder, job["id"])
            row = dict(job=job, error="ended early or took longer than %.0f s" % limit)
            if os.path.exists(left + ".json"):
                with open(left + ".json") as f:
                    row = json.load(f)
            for ending in (".json", ".trace", ".todo"):  # traces are large, and not asked for here
                if os.path.exists(left + ending):
                    os.remove(left + ending)
            bad += "error" in row
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
            out.flush()
            r = row.get("result", {})
            log("%2d of %d, %5.1f s  %-26s %s" % (n + 1, len(todo), time.time() - since, job["id"], row.get("error", "").strip()[-200:] or
                ("reserved %.3f GiB, overhead %s" % (r["peak_reserved"] / 2**30, r.get("overhead")) if mode == "cuda" else "runs")))
    log("%d failed, %.0f s" % (bad, time.time() - start))


# ---- without one ----

def ask(job, gpu):
    """plimsoll.estimate of the job, as a user would ask: the model on meta, in its own types."""
    import torch
    import plimsoll
    from build import build, takes
    torch.manual_seed(0)
    model, inputs = build(job, meta=True)
    batch = {n: torch.empty_like(t, device="meta") for n, t, _ in inputs(job["batch"])}
    precision = job["precision"]
    if precision == "bf16":  # the weights and the inputs are; nothing is to be said
        model, precision = model.to(torch.bfloat16), None
        batch = {n: t.to(torch.bfloat16) if t.is_floating_point() else t for n, t in batch.items()}
    given = {n: batch[n] for n in takes(job, list(batch))}
    if job["source"] == "torchvision":
        given = tuple(given.values())
    return plimsoll.estimate(model, given, optimizer=job["optimizer"], precision=precision, gpu=gpu,
                             loss="auto" if job["loss"] == "own" else job["loss"])


def estimate(rows, gpu, csv):
    import statistics
    import warnings
    warnings.filterwarnings("ignore")
    import transformers
    transformers.logging.set_verbosity_error()
    print("%-26s %-9s %-12s %5s %-6s %12s %12s %8s %8s %6s" % ("JOB", "PRECISION", "OPTIMIZER", "BATCH", "VIA", "MEASURED MiB", "PEAK MiB", "ERROR",
                                                               "ALLOC.", "SEC."))
    errors, kept = {"export": [], "trace": []}, []
    held = high = 0
    for row in rows:
        job, result = row["job"], row.get("result") or {}
        measured = None
        if result.get("peak_reserved") and result.get("overhead") is not None:
            measured = result["peak_reserved"] + result["overhead"]
        since, why = time.time(), ""
        try:
            report = ask(job, gpu)
        except Exception as problem:
            report, why = None, "%s: %s" % (type(problem).__name__, str(problem).splitlines()[0][:300] if str(problem) else "")
        took = time.time() - since
        line = [job["id"], job["precision"], job["optimizer"], job["batch"], report.via if report else "-", measured, report.peak_bytes if report else None]
        error = report.peak_bytes / measured - 1 if report and measured else None
        inner = report.allocated_bytes / result["peak_allocated"] - 1 if report and measured and report.allocated_bytes else None
        if error is not None:
            errors[report.via].append(abs(error))
            held += report.low_bytes <= measured <= report.high_bytes
            high += measured > report.high_bytes
        mib = ["-" if v is None else "%.1f" % (v / 2**20) for v in line[5:]]
        share = ["-" if v is None else "%+.2f %%" % (100 * v) for v in (error, inner)]
        print("%-26s %-9s %-12s %5d %-6s %12s %12s %8s %8s %6.1f" % (*line[:5], *mib, *share, took), flush=True)
        if why or "error" in row:
            print("    %s" % (why or "not measured: " + row["error"].strip()[-200:]))
        kept.append(line + [error, inner, took, report.low_bytes if report else None, report.high_bytes if report else None])
    for via, found in errors.items():
        if found:
            found.sort()
            print("%s: %d jobs, |error| median %.2f %%, mean %.2f %%, largest %.2f %%" % (
                via, len(found), 100 * statistics.median(found), 100 * statistics.mean(found), 100 * found[-1]))
    total = sum(map(len, errors.values()))
    if total:
        print("in the interval: %d of %d, above it: %d" % (held, total, high))
    if csv:
        with open(csv, "w") as out:
            out.write("id,precision,optimizer,batch,via,measured,peak,error,allocated_error,seconds,low,high\n")
            for line in kept:
                out.write(",".join("" if v is None else str(v) for v in line) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("measure", "estimate", "list"))
    p.add_argument("path", nargs="?", help="JSON lines: written by measure, read by estimate")
    p.add_argument("--only", default="", help="part of an id; several with commas")
    p.add_argument("--all", action="store_true", help="estimate every job, measured or not")
    p.add_argument("--budget", type=float, default=470, help="seconds for measuring")
    p.add_argument("--timeout", type=float, default=60, help="seconds a job may take")
    p.add_argument("--dry-run", action="store_true", help="measure: every job's loop at batch 2 on the CPU, in fp32")
    p.add_argument("--gpu", default="h200")
    p.add_argument("--csv", help="write the table's numbers")
    a = p.parse_args()
    todo = [j for j in all_jobs() if not a.only or any(o in j["id"] for o in a.only.split(","))]
    if a.what == "list":
        print("\n".join(j["id"] for j in todo))
    elif a.what == "measure":
        if not a.path:
            p.error("measure needs a path to write to")
        measure(todo, a.path, a.budget, a.timeout, "cpu" if a.dry_run else "cuda")
    else:
        if not a.path and not a.all:
            p.error("estimate needs what measure wrote, or --all")
        rows = []
        if a.path:
            with open(a.path) as f:
                rows = [json.loads(line) for line in f]
        known = {r["job"]["id"] for r in rows}
        wanted = {j["id"] for j in todo}
        rows = [r for r in rows if r["job"]["id"] in wanted] + [dict(job=j) for j in todo if a.all and j["id"] not in known]
        estimate(rows, a.gpu, a.csv)


if __name__ == "__main__":
    main()
