"""What transformers' configuration classes hold where a config.json says nothing: src/import/hf_defaults.txt.

    hf_defaults.py > src/import/hf_defaults.txt

A line is a model type, a blank and a JSON object of the class's defaults. Kept is what can change the sizes or the shape of a model: numbers,
truths, strings and short lists that the class states as they are. What a class works out of its other keys (head_dim of hidden_size,
layer_types of num_hidden_layers) is None or another value before it does, and is left out: the families of src/import/families work it
out themselves. "=" has the other names that the class takes for its keys ({"hidden_size": "n_embd"}). A configuration inside another has
its model_type, and where the outer class makes it by itself what it then sets apart from the inner class's defaults.
Needs transformers alone.
"""
import dataclasses
import json
import re
import sys

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

# Of every configuration, of generating text, of initial values, of losses' weights: nothing of these has a size.
LEFT_OUT = re.compile(r"""
    _name_or_path|architectures|transformers_version|model_type|problem_type|return_dict|id2label|label2id|dtype
  | output_.*|chunk_size_feed_forward|is_encoder_decoder|use_cache|is_decoder|pretraining_tp|dtype|prefix|finetuning_task
  | .*initializer.*|init_std|.*_std|.*_mean|rope_theta|rope_scaling|rope_parameters|.*_rope_theta
  | (?!pad_token_id$).*_token(_id|_index|_ids)?|begin_suppress_tokens|suppress_tokens|forced_.*|.*_cost|.*_loss_coef(ficient)?
  | no_repeat_.*|num_beams|do_sample|max_length|min_length|length_penalty|early_stopping|temperature|top_[kp]|repetition_penalty|task_specific_params
  | layer_norm_eps|(?!rms_norm_eps$).*_eps|.*epsilon|eps|mask_(time|feature)_.*|apply_spec_augment|use_mems_.*|.*_logits_to_keep
""", re.X)


def plain(value):
    """Whether a value of a configuration says something of a model's shape."""
    if isinstance(value, (bool, int, float, str)):
        return True
    return isinstance(value, (list, tuple)) and len(value) <= 64 and all(isinstance(x, (bool, int, float, str)) for x in value)


def stated(cls):
    """The class's own defaults, before it works out the rest: {key: value}."""
    found = {}
    for field in dataclasses.fields(cls):
        value = field.default
        if field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        if value is not dataclasses.MISSING and value is not None:
            found[field.name] = list(value) if isinstance(value, tuple) else value
    return found


def defaults(cls, made):
    """What a file may leave out: stated by the class, and still so in a configuration that was made of nothing."""
    row, now_all = {}, made.to_dict()
    for key, value in sorted(stated(cls).items()):
        now = now_all.get(key)
        now = list(now) if isinstance(now, tuple) else now
        if plain(value) and now == value and not LEFT_OUT.fullmatch(key):
            row[key] = value
    names = {alias: key for alias, key in sorted((cls.attribute_map or {}).items()) if not LEFT_OUT.fullmatch(alias)}
    return {**row, **({"=": names} if names else {})}


def main():
    transformers.logging.set_verbosity_error()
    made, rows = {}, {}
    for name in CONFIG_MAPPING.keys():
        cls = CONFIG_MAPPING[name]
        try:
            made[name] = cls()
        except Exception as why:  # a class that cannot be made of nothing has no defaults
            print(f"{name}: {str(why)[:100]}", file=sys.stderr)
            continue
        rows[name] = defaults(cls, made[name])
    for name, config in made.items():
        for key in sorted(config.sub_configs or {}):
            inner = config.to_dict().get(key)
            kind = inner.get("model_type") if isinstance(inner, dict) else None
            if not kind:
                continue
            usual = rows.get(kind, {})
            own = {k: v for k, v in inner.items() if plain(v) and k in usual and v != usual[k]}
            rows[name][key] = {"model_type": kind, **own}
    print(f"# transformers {transformers.__version__}, made by tools/hf_defaults.py")
    for name in sorted(rows):
        print(name, json.dumps(rows[name], separators=(",", ":"), sort_keys=True))


main()
