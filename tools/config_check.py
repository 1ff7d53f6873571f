"""Models described by a config.json against the model class itself: every model type of transformers, or those named.

    config_check.py [--task causal] [--out TABLE.tsv] [--held-out yes|no] [--seconds 240] [--keep FOLDER] [TYPE ...]

Each configuration is its class's defaults made narrower (NARROW below), written down as save_pretrained() does. What the library makes of that
file is held against the class, which three steps are run of under fake tensors (via="trace"): true PyTorch, no card. Compared are the bytes
that PyTorch's allocator hands out at the most, by the simulation alone. A process is forked for each, so that one that fails or takes longer
than --seconds stops nothing. A third of the model types, by a hash of the name, is set aside: --held-out says which to run (all without it).

The table: type, task, held out, precision, batch, sequence, allocated by the file, by the class, their ratio, interval's upper end over the class,
warnings or what failed. --keep: the config.json of each stays there.
Needs torch and transformers, and the package (PYTHONPATH=python) with its library (PLIMSOLL_LIBRARY).
"""
import argparse
import hashlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time
import traceback

# What is made narrower where a configuration has it: the classes' defaults are models of billions of parameters, and what is to be seen is
# the plan of a layer. Everything else stays as the class has it.
NARROW = {
    "hidden_size": 512, "d_model": 512, "n_embd": 512, "dim": 512, "embed_dim": 512, "emb_dim": 512, "word_embed_proj_dim": 512,
    "num_hidden_layers": 6, "n_layer": 6, "n_layers": 6, "num_layers": 6, "encoder_layers": 3, "decoder_layers": 3, "num_decoder_layers": 3,
    "num_attention_heads": 8, "n_head": 8, "n_heads": 8, "num_heads": 8, "encoder_attention_heads": 8, "decoder_attention_heads": 8,
    "num_key_value_heads": 2, "intermediate_size": 1408, "n_inner": 1408, "ffn_dim": 1408, "d_ff": 1408,
    "encoder_ffn_dim": 1408, "decoder_ffn_dim": 1408,
    "vocab_size": 8000, "moe_intermediate_size": 256, "n_routed_experts": 16, "num_experts": 16, "num_local_experts": 8, "moe_num_experts": 16,
}
PRECISIONS = ("fp32", "amp-bf16", "bf16")


def own_keys(heads):
    """What a class may want beside, since it checks its keys against each other."""
    return ({}, {"num_key_value_heads": heads}, {"head_dim": 64}, {"num_heads": 16, "head_dim": 64}, {"attention_types": [[["global", "local"], 3]]},
            {"layers_block_type": ["linear_attention", "linear_attention", "hybrid"] * 2})


def held_out(name):
    return int(hashlib.sha1(name.encode()).hexdigest(), 16) % 3 == 0


def types_of(task):
    from plimsoll import _family
    from transformers.models.auto import modeling_auto
    found = []
    for auto in _family.TASKS[task][:1] if task == "causal" else _family.TASKS[task]:
        names = {"CausalLM": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "MaskedLM": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
                 "Seq2SeqLM": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", "SpeechSeq2Seq": "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
                 "SequenceClassification": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
                 "ImageClassification": "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
                 "AudioClassification": "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
                 "VideoClassification": "MODEL_FOR_VIDEO_CLASSIFICATION_MAPPING_NAMES",
                 "TokenClassification": "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
                 "ImageTextToText": "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "": "MODEL_MAPPING_NAMES"}[auto]
        found += [name for name in getattr(modeling_auto, names) if name not in found]
    return found


def narrowed(cls):
    """The class's defaults, narrower. Keys that the class works out of others (layer_types) follow."""
    usual = cls()
    text = usual.get_text_config() if hasattr(usual, "get_text_config") else usual
    whole = text.to_dict()
    kept = {key: value for key, value in NARROW.items() if isinstance(whole.get(key), int) and whole[key] > value}
    heads = next((kept.get(k, whole.get(k)) for k in ("num_attention_heads", "n_head", "n_heads", "num_heads") if whole.get(k)), None)
    if "num_key_value_heads" in kept and whole["num_key_value_heads"] == whole.get("num_attention_heads"):
        kept["num_key_value_heads"] = heads
    for own in own_keys(heads):  # the first that the class takes
        try:
            if text is usual:
                return cls(**{**kept, **own})
            name = next(key for key in usual.sub_configs if getattr(usual, key, None) is text)
            return cls(**{name: {**kept, **own, "model_type": text.model_type}})
        except Exception:
            continue
    raise ValueError("the class takes no narrower sizes")


def check(name, task, keep, unnamed=False):
    """One model type: a row of the table after its name."""
    import plimsoll
    from plimsoll import _family
    from plimsoll._model import Model  # the library's reader alone, without the road over transformers
    from transformers import CONFIG_MAPPING
    digest = int(hashlib.sha1(name.encode()).hexdigest(), 16)
    precision = PRECISIONS[digest // 3 % 3]
    batch, seq = 2, 256 if task in ("causal", "masked", "tokens") else None
    config = narrowed(CONFIG_MAPPING[name])
    if seq:  # no more than it has positions
        seq = min(seq, getattr(config.get_text_config(decoder=True), "max_position_embeddings", None) or seq)
    if getattr(config, "pad_token_id", None) is None or config.pad_token_id >= 8000:
        config.pad_token_id = 0
    kind, _ = _family._class_of(config, task)
    config.architectures = [kind.__name__]
    row = [precision, str(batch), str(seq or "-")]
    said = {"optimizer": "adamw", "gpu": "h200", "estimator": "sim", "precision": precision}
    got = high = None
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(keep or folder, name + ".json")
        with open(path, "w") as file:
            text = config.to_json_string(use_diff=True)
            file.write(text.replace('"model_type": "%s"' % name, '"model_type": "unnamed"') if unnamed else text)
        words = ""
        try:
            report = Model(path, task=task).estimate(batch=batch, **({"seq": seq} if seq else {}), **said)
            got, high = report.allocated_bytes, report.high_bytes / report.peak_bytes * report.allocated_bytes
            words = "; ".join(report.warnings)
        except Exception as problem:
            words = "refused: " + " ".join(str(problem).split())
        built = _family.build(config, batch, seq, {"task": task})
        truth = plimsoll.estimate(built.module, built.inputs, via="trace", **said).allocated_bytes
    if got is None:
        return row + ["-", str(truth), "-", "-", words]
    return row + [str(got), str(truth), "%.4f" % (got / truth), "%.4f" % (high / truth), words]


def forked(seconds, work):
    """What work() returns, of a child that has so many seconds."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.setsid()
        signal.alarm(seconds)
        try:
            row = work()
        except BaseException as problem:
            where = traceback.extract_tb(problem.__traceback__)[-1]
            why = " ".join(str(problem).split())[:200]
            row = ["-"] * 7 + ["failed: %s: %s (%s:%d)" % (type(problem).__name__, why, where.filename, where.lineno or 0)]
        os.write(write, json.dumps(row).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        text = file.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else ["-"] * 7 + ["failed: no answer within %d s" % seconds]


def summary(rows):
    done = [float(row[8]) for row in rows if row[8] != "-"]
    asked = [row for row in rows if row[7] != "-"]
    if not done:
        return "nothing to compare"
    errors = sorted(abs(x - 1) for x in done)
    return "%d of %d answered; error median %.2f %%, p90 %.1f %%; more than 5 %% too low %.1f %%, above high %.1f %%" % (
        len(done), len(asked), 100 * statistics.median(errors), 100 * errors[int(0.9 * (len(errors) - 1))],
        100 * sum(x < 0.95 for x in done) / len(done), 100 * sum(float(row[9]) < 1 for row in rows if row[9] != "-") / len(done))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="causal")
    parser.add_argument("--out")
    parser.add_argument("--keep")
    parser.add_argument("--unnamed", action="store_true", help="the files' model types are of no family: answered by resemblance")
    parser.add_argument("--held-out", choices=("yes", "no"))
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("types", nargs="*")
    given = parser.parse_args()
    import plimsoll  # noqa: F401  before the forks
    import torch  # noqa: F401
    import transformers
    transformers.logging.set_verbosity_error()
    names = given.types or types_of(given.task)
    if given.held_out:
        names = [name for name in names if held_out(name) == (given.held_out == "yes")]
    rows, out = [], open(given.out, "w") if given.out else sys.stdout
    for name in names:
        began = time.monotonic()
        row = [name, given.task, "held-out" if held_out(name) else "seen"]
        row += forked(given.seconds, lambda: check(name, given.task, given.keep, given.unnamed))
        rows.append(row)
        print("\t".join(row), file=out, flush=True)
        if given.out:
            print("%-28s %8s  %5.1f s  %s" % (name, row[8], time.monotonic() - began, row[10][:120]), file=sys.stderr, flush=True)
    for part in ("seen", "held-out"):
        print("# %s: %s" % (part, summary([row for row in rows if row[2] == part])), file=sys.stderr)


if __name__ == "__main__":
    main()
