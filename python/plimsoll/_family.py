"""A configuration of transformers whose family the library does not know, as a module and its inputs.

transformers itself builds the model on the meta device, where nothing of its size is allocated, from the class that
`architectures` or the task names (never from code that a configuration brings along, and nothing is downloaded); inputs
and labels are made of the sizes that the configuration holds, one sample and at most 1,024 tokens where the caller does
not say, as the library's own reader has it; pictures beside text are those of _pictures.py. Left out: models that take
sound and text together, and those whose labels are boxes or masks: they need inputs of the user's.
"""
from __future__ import annotations

import copy
import importlib.util
import inspect
import json
import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import _export, _pictures
from ._errors import UsageError
from ._library import library, rows, text

USUAL_SEQ = 1024
USUAL_SAMPLES = 160000  # of sound: 10 s at 16 kHz
USUAL_IMAGE = 224
USUAL_BOXES = 7  # of an image: COCO's mean
MOST_VALUES = 1 << 22  # integers that get values; more of them are a shape alone
MOST_FILE = 16 << 20  # bytes of a config.json

# What the library's task= means: the Auto classes to look in, in order.
TASKS = {
    "causal": ("CausalLM", "ImageTextToText"),  # the second: called with text alone
    "masked": ("MaskedLM",),
    "seq2seq": ("Seq2SeqLM", "SpeechSeq2Seq"),
    "classify": ("SequenceClassification", "ImageClassification", "AudioClassification", "VideoClassification"),
    "tokens": ("TokenClassification",),
    "segment": ("SemanticSegmentation",),
    "detect": ("ObjectDetection",),
    "ctc": ("CTC",),
    "base": ("",),
    "image-text": ("ImageTextToText",),
}
# Where nothing says what the model is trained to do.
USUAL = ("ImageTextToText", "Seq2SeqLM", "SpeechSeq2Seq", "MaskedLM", "CausalLM", "ImageClassification", "VideoClassification", "AudioClassification",
         "SemanticSegmentation", "SequenceClassification", "")

# How a class's name ends: its labels, as (argument, kind). Kinds: per token, per sample, per pixel.
LABELS = (
    ("ForCausalLM", (("labels", "token"),)),
    ("LMHeadModel", (("labels", "token"),)),
    ("ForMaskedLM", (("labels", "token"),)),
    ("ForConditionalGeneration", (("labels", "token"),)),
    ("ForSpeechSeq2Seq", (("labels", "token"),)),
    ("MTModel", (("labels", "token"),)),
    ("ForTokenClassification", (("labels", "token"),)),
    ("ForSequenceClassification", (("labels", "sample"),)),
    ("ForImageClassification", (("labels", "sample"),)),
    ("ForAudioClassification", (("labels", "sample"),)),
    ("ForVideoClassification", (("labels", "sample"),)),
    ("ForSemanticSegmentation", (("labels", "pixel"),)),
    ("ForQuestionAnswering", (("start_positions", "sample"), ("end_positions", "sample"))),
)


class Built(NamedTuple):
    """A module and example inputs for it; said: what was assumed."""

    module: Any
    inputs: Dict[str, Any]
    said: List[str]


class Unable(Exception):
    """transformers cannot build it, or inputs cannot be made of the configuration alone; the text says why."""


def known(model_type: Any) -> bool:
    """Whether the library's reader has the family."""
    return model_type in {text(name) for name in rows(library().pl_model_type_name)}


def config_of(model: Any) -> Any:
    """The configuration of transformers that a path names, where the library does not know its family and transformers
    is installed; else None."""
    try:
        path = os.fspath(model)
        if os.path.isdir(path):
            path = os.path.join(path, "config.json" if isinstance(path, str) else b"config.json")
        if path[-5:] not in (".json", b".json") or not os.path.isfile(path) or os.path.getsize(path) > MOST_FILE:
            return None
        with open(path, "rb") as file:
            content = file.read()
        if b'"model_type"' not in content:  # another JSON: quickly past it
            return None
        made = json.loads(content)
        kind = made["model_type"]
        if not isinstance(kind, str) or known(kind) or not all(importlib.util.find_spec(name) for name in ("torch", "transformers")):
            return None
        with _export.quiet():
            from transformers import CONFIG_MAPPING
            return CONFIG_MAPPING[kind].from_dict(made) if kind in CONFIG_MAPPING else None
    except Exception:  # the library's reader says what is wrong with the file
        return None


# ---- the class ----

def _mapped(config: Any, name: str) -> Any:
    """transformers' own class of AutoModelFor<name> for the configuration; None where it has none."""
    import transformers
    auto = getattr(transformers, "AutoModelFor" + name if name else "AutoModel", None)
    mapping = getattr(auto, "_model_mapping", {})
    if type(config) not in mapping:
        return None
    found = mapping[type(config)]
    return found[0] if isinstance(found, (tuple, list)) else found


def _class_of(config: Any, task: Optional[str]) -> Tuple[Any, str]:
    """The class, and where it comes from in words."""
    import transformers
    if task and task != "auto":
        task = task.split(":")[0]
        if task not in TASKS:
            raise UsageError("%r is none of %s" % (task, ", ".join(TASKS)), "task")
        for name in TASKS[task]:
            found = _mapped(config, name)
            if found is not None:
                return found, "as the task says"
        raise UsageError("%s has no model for the task %s in transformers" % (config.model_type, task), "task")
    for name in getattr(config, "architectures", None) or ():
        found = getattr(transformers, str(name), None)
        if inspect.isclass(found) and issubclass(found, transformers.PreTrainedModel):
            return found, "as architectures says"
    decoder = bool(getattr(config, "is_decoder", False))
    for name in USUAL:
        found = None if name == "MaskedLM" and decoder else _mapped(config, name)
        if found is not None:
            return found, "which is assumed"
    raise Unable("transformers has no model for model_type %s" % config.model_type)


def _picture(task: Optional[str]) -> Optional[Tuple[int, int]]:
    """Height and width of the picture that a task names: "image-text:640x480"."""
    if not task or ":" not in task:
        return None
    name, _, size = task.partition(":")
    sides = size.split("x")
    if name != "image-text" or len(sides) != 2 or not all(side.isdigit() and 0 < int(side) < 100000 for side in sides):
        raise UsageError("%r is no task: a picture's size is said as image-text:640x480" % task, "task")
    return int(sides[1]), int(sides[0])


# ---- inputs ----

def _number(config: Any, *names: str) -> Optional[int]:
    """The first of these that is a whole number above 0, in the configuration or in a part of it."""
    parts = [config]
    for key in ("vision_config", "backbone_config", "encoder", "audio_config", "text_config"):
        part = getattr(config, key, None)
        if part is not None:
            parts.append(part)
    for part in parts:
        for name in names:
            value = getattr(part, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def _image(config: Any) -> Optional[Tuple[int, int]]:
    """Height and width; None where the configuration does not say."""
    for part in (config, getattr(config, "vision_config", None), getattr(config, "backbone_config", None)):
        for name in ("image_size", "img_size", "input_size", "crop_size"):
            value = getattr(part, name, None)
            if isinstance(value, dict):
                value = [value.get("height"), value.get("width")]
            if isinstance(value, int) and value > 0:
                return value, value
            if isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(v, int) and v > 0 for v in value):
                return value[0], value[1]
    return None


class _Maker:
    """Inputs of one model: what its configuration says of their sizes, and what was assumed."""

    def __init__(self, module: Any, batch: Optional[int], seq: Optional[int]) -> None:
        self.module, self.config = module, module.config
        self.batch, self.seq = batch or 1, seq
        self.assumed = [] if batch else ["a batch of 1"]
        self.given = seq is not None
        self.names = set(inspect.signature(module.forward).parameters)
        self.size = (0, 0)  # of the pictures
        self.text_alone = False  # of models that take pictures too
        self.picture: Optional[Tuple[int, int]] = None  # beside a text: height and width, where the caller says

    def length(self) -> int:
        """Of the text."""
        if self.seq is None:
            config = self.config.get_text_config() if hasattr(self.config, "get_text_config") else self.config
            most = _number(config, "max_position_embeddings", "n_positions", "max_target_positions", "max_sequence_length", "max_seq_len",
                           "seq_length", "n_ctx", "context_length")
            if most and most > 4 and not (most - 2) & (most - 3):
                most -= 2  # RoBERTa and its kin count positions from the padding on: 514 hold 512
            self.seq = min(most or USUAL_SEQ, USUAL_SEQ)
            self.assumed.append("a sequence of %d" % self.seq)
        return self.seq

    def integers(self, *shape: int, most: Optional[int] = None) -> Any:
        import torch
        count = 1
        for extent in shape:
            count *= extent
        if count > MOST_VALUES:
            return torch.empty(shape, dtype=torch.int64, device="meta")
        return torch.arange(count, dtype=torch.int64).remainder(max(1, most or 2)).reshape(shape)

    def reals(self, *shape: int) -> Any:
        import torch
        return torch.empty(shape, dtype=torch.float32, device="meta")

    def pictures(self) -> Any:
        said = _image(self.config)
        self.size = said or (USUAL_IMAGE, USUAL_IMAGE)
        if not said:
            self.assumed.append("pictures of %d x %d" % self.size)
        channels = _number(self.config, "num_channels", "in_channels", "num_input_channels", "in_chans") or 3
        frames = _number(self.config, "num_frames", "frames_per_clip")
        if frames and ("Video" in type(self.module).__name__ or self.module.main_input_name == "pixel_values_videos"):
            return self.reals(self.batch, frames, channels, *self.size)
        return self.reals(self.batch, channels, *self.size)

    def sound(self) -> Any:
        """A waveform, or a spectrogram where the configuration has its size."""
        bins, longest = _number(self.config, "num_mel_bins"), _number(self.config, "max_length")
        if self.module.main_input_name == "input_values" and bins and longest:
            return self.reals(self.batch, longest, bins)
        if self.module.main_input_name == "input_values":
            if not self.given:
                self.assumed.append("sound of %d samples" % USUAL_SAMPLES)
            samples, self.seq = self.seq or USUAL_SAMPLES, None
            return self.reals(self.batch, samples)
        positions = _number(self.config, "max_source_positions")
        if bins and positions:
            return self.reals(self.batch, bins, 2 * positions)
        width = _number(self.config, "feature_projection_input_dim", "input_feat_per_channel", "num_mel_bins")
        if not width:
            raise Unable("the size of input_features is not in the configuration")
        frames = self.seq or USUAL_SEQ
        if not self.given:
            self.assumed.append("%d frames of sound" % frames)
        return self.reals(self.batch, frames, width)

    def boxes(self) -> List[Dict[str, Any]]:
        """Labels of a detector: so many objects of every image, their boxes in parts of its sides."""
        import torch
        self.assumed.append("%d boxes an image" % USUAL_BOXES)
        classes = torch.arange(USUAL_BOXES) % max(1, _number(self.config, "num_labels") or 2)
        corners = torch.full((USUAL_BOXES, 4), 0.5)
        return [{"class_labels": classes.clone(), "boxes": corners.clone()} for _ in range(self.batch)]

    def labels(self, out: Dict[str, Any]) -> None:
        name = type(self.module).__name__
        if name.endswith("ForObjectDetection") and "labels" in self.names:
            out["labels"] = self.boxes()
            return
        text_config = self.config.get_text_config() if hasattr(self.config, "get_text_config") else self.config
        for ending, arguments in LABELS:
            if not name.endswith(ending):
                continue
            for argument, kind in arguments:
                if argument not in self.names:
                    continue
                if kind == "sample":
                    out[argument] = self.integers(self.batch, most=_number(self.config, "num_labels"))
                elif kind == "pixel":
                    out[argument] = self.integers(self.batch, *self.size)
                else:
                    out[argument] = self.integers(self.batch, self.length(), most=_number(text_config, "vocab_size"))
            return

    def beside_text(self, out: Dict[str, Any]) -> Dict[str, Any]:
        """A picture to each sample, at the beginning of its text."""
        if "pixel_values" not in self.names:
            raise Unable("%s takes text and other inputs together" % type(self.module).__name__)
        try:
            picture = _pictures.Picture(self.module, self.batch, self.picture)
            self.seq = self.seq or picture.length(USUAL_SEQ)
            ids = self.integers(self.batch, self.seq, most=_number(self.config.get_text_config(), "vocab_size"))
            out.update(picture.place(ids))
        except _pictures.Unfit as problem:
            raise Unable("%s takes pictures beside text: %s" % (type(self.module).__name__, problem)) from problem
        if not self.given:
            self.assumed.append("a sequence of %d" % self.seq)
        self.assumed += picture.said
        self.labels(out)
        return out

    def inputs(self) -> Dict[str, Any]:
        main = self.module.main_input_name
        out: Dict[str, Any] = {}
        both = "input_ids" in self.names and bool(self.names & {"pixel_values", "input_features", "input_values", "image", "images"})
        encoder_decoder = bool(getattr(self.config, "is_encoder_decoder", False))
        if both and "return_loss" in self.names and "pixel_values" in self.names:  # CLIP and its kin: two encoders
            out["input_ids"] = self.integers(self.batch, self.length(), most=_number(self.config.text_config, "vocab_size"))
            out["pixel_values"] = self.pictures()
            out["return_loss"] = True
            return out
        if both and not (encoder_decoder and main != "input_ids") and not (self.text_alone and "pixel_values" in self.names):
            return self.beside_text(out)
        if main == "input_ids" or (both and self.text_alone):
            config = self.config.get_text_config() if hasattr(self.config, "get_text_config") else self.config
            out["input_ids"] = self.integers(self.batch, self.length(), most=_number(config, "vocab_size"))
            if "bbox" in self.names:
                out["bbox"] = self.integers(self.batch, self.length(), 4)
        elif main in ("pixel_values", "pixel_values_videos"):
            out[main] = self.pictures()
        elif main in ("input_values", "input_features"):
            out[main] = self.sound()
        else:
            raise Unable("%s takes %s, which cannot be made of the configuration" % (type(self.module).__name__, main))
        self.labels(out)
        required = [p.name for p in inspect.signature(self.module.forward).parameters.values()
                    if p.default is p.empty and p.kind == p.POSITIONAL_OR_KEYWORD and p.name not in out]
        if required:
            raise Unable("%s wants %s, which cannot be made of the configuration" % (type(self.module).__name__, ", ".join(required)))
        return out


def _assumed(maker: _Maker) -> str:
    return "; assumed: " + ", ".join(maker.assumed) if maker.assumed else ""


# ---- what the package asks ----

def inputs_of(module: Any, batch: Optional[int], seq: Optional[int]) -> Built:
    """Inputs for a module of transformers that the user has, of its configuration. Raises Unable."""
    maker = _Maker(module, batch, seq)
    inputs = maker.inputs()
    return Built(module, inputs, ["there are no example inputs: %s, of the sizes in the model's configuration%s"
                                  % (", ".join(inputs), _assumed(maker))])


def build(config: Any, batch: Optional[int], seq: Optional[int], reading: Dict[str, Any]) -> Built:
    """The model of a configuration on the meta device, and inputs for it. Raises Unable."""
    import torch
    import transformers
    kind, why = _class_of(config, reading.get("task"))
    config, said = copy.deepcopy(config), []
    wanted = {"flash2": "flash_attention_2"}.get(reading.get("attention") or "", reading.get("attention"))
    named = wanted or getattr(config, "_attn_implementation", None)
    if named not in (None, "sdpa", "eager"):
        said.append("%s is simulated as sdpa" % named)
        wanted = "sdpa"
    if getattr(config, "quantization_config", None) is not None:
        said.append("quantization_config is not followed: weights are counted unquantised")
        del config.quantization_config
    if getattr(config, "use_pretrained_backbone", False):
        config.use_pretrained_backbone = False
    for part in (config, *(getattr(config, key, None) for key in ("text_config", "decoder"))):
        if getattr(part, "use_cache", False):
            part.use_cache = False
    if kind.__name__.endswith("ForSequenceClassification") and getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = 0
    try:
        with _export.quiet(), torch.device("meta"):
            module = kind._from_config(config, **({"attn_implementation": wanted} if wanted else {})).train()
    except Exception as problem:
        raise Unable("transformers %s does not build %s on the meta device (%s)"
                     % (transformers.__version__, kind.__name__, _export.reason_of(problem))) from problem
    maker = _Maker(module, batch, seq)
    maker.text_alone = reading.get("task") == "causal"
    maker.picture = _picture(reading.get("task"))
    inputs = maker.inputs()
    said.insert(0, "built of the configuration by transformers %s, since the library does not know model_type %s: %s, %s, called with "
                   "%s%s" % (transformers.__version__, config.model_type, kind.__name__, why, ", ".join(inputs), _assumed(maker)))
    return Built(module, inputs, said)
