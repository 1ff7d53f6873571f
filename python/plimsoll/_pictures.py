"""Inputs of transformers' models that take pictures beside text: one picture to a sample, at the beginning of its text.

What a processor would make of the picture is made of the configuration: pixel values of the size that the tower is
made for, or, where a tower takes any size, of a picture of 640 x 480 (COCO's, of which LLaVA's instructions are) unless
the caller says another; the text holds as many of the tokens that stand for it as the model's own projector gives
features, and what the processor gives beside (grids, sizes, kinds of tokens) is given where the model's forward takes it.
Left out: videos, several pictures to a sample, models whose pictures no rule here fits.
"""
from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Tuple

USUAL = (480, 640)  # height, width
TEXT = 256  # tokens that a picture leaves to the text, where the sequence is not given
ROUND = 256


class Unfit(Exception):
    """No rule fits; the text says why."""


def _first(config: Any, *names: str) -> Any:
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return value
    return None


def _side(value: Any) -> int:
    if isinstance(value, dict):
        value = [value.get("height"), value.get("width")]
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
    if not isinstance(value, int) or value < 1:
        raise Unfit("the configuration has no size of its pictures")
    return value


def smart_size(height: int, width: int, factor: int, least: int, most: int) -> Tuple[int, int]:
    """Multiples of factor near the picture's sides, their product within the processor's bounds."""
    if max(height, width) > 200 * min(height, width):
        raise Unfit("a picture of %d x %d is longer than the processor takes" % (width, height))
    h, w = round(height / factor) * factor, round(width / factor) * factor
    if h * w > most:
        shrink = math.sqrt(height * width / most)
        h, w = (max(factor, math.floor(side / shrink / factor) * factor) for side in (height, width))
    elif h * w < least:
        grow = math.sqrt(least / (height * width))
        h, w = (math.ceil(side * grow / factor) * factor for side in (height, width))
    return h, w


# Towers that take any size, in patches of a grid: the bounds of their processors' pictures (in pixels).
GRIDS = {
    "qwen2_vl": (56 * 56, 28 * 28 * 1280), "qwen2_5_vl": (56 * 56, 28 * 28 * 1280),
    "qwen3_vl": (65536, 16777216), "qwen3_vl_moe": (65536, 16777216), "qwen3_5": (65536, 16777216), "qwen3_5_moe": (65536, 16777216),
    "glm4v": (112 * 112, 28 * 28 * 15000), "glm4v_moe": (112 * 112, 28 * 28 * 15000), "glm46v": (112 * 112, 28 * 28 * 15000),
}


class Picture:
    """One picture to a sample for a module: what is given, and how many tokens stand for it."""

    def __init__(self, module: Any, batch: int, size: Optional[Tuple[int, int]]) -> None:
        self.module, self.config, self.batch = module, module.config, batch
        self.vision = _first(self.config, "vision_config") or self.config
        self.names = _arguments(module)
        self.wanted = size or USUAL
        self.said: List[str] = []
        self.given: Dict[str, Any] = {}
        self.tokens = 0
        if self.config.model_type in GRIDS:
            self._grid()
        else:
            self._square()

    def _reals(self, *shape: int) -> Any:
        import torch
        return torch.empty(shape, dtype=torch.float32, device="meta")

    def _grid(self) -> None:
        import torch
        patch, merge = self.vision.patch_size, self.vision.spatial_merge_size
        h, w = smart_size(*self.wanted, patch * merge, *GRIDS[self.config.model_type])
        rows, columns = h // patch, w // patch
        width = (_first(self.vision, "in_channels", "in_chans") or 3) * self.vision.temporal_patch_size * patch * patch
        self.given["pixel_values"] = self._reals(self.batch * rows * columns, width)
        self.given["image_grid_thw"] = torch.tensor([[1, rows, columns]] * self.batch)
        self.tokens = rows * columns // merge ** 2
        self.said.append("a picture of %d x %d to a sample, brought to %d x %d: %d tokens" % (*self.wanted[::-1], w, h, self.tokens))

    def _square(self) -> None:
        import torch
        side = _side(_first(self.vision, "image_size", "img_size"))
        channels = _first(self.vision, "num_channels", "in_channels") or 3
        several = (1,) if self.config.model_type in ("idefics2", "idefics3", "smolvlm") else ()
        self.given["pixel_values"] = self._reals(self.batch, *several, channels, side, side)
        if "image_sizes" in self.names and self.config.model_type not in ("llava", "vipllava"):
            self.given["image_sizes"] = torch.tensor([[side, side]] * self.batch)
        self.tokens = self._count()
        self.said.append("a picture of %d x %d to a sample: %d tokens" % (side, side, self.tokens))

    def _count(self) -> int:
        """As many as the projector gives features, of a pass on the meta device."""
        import torch
        get = getattr(self.module, "get_image_features", None)
        if get is None:
            raise Unfit("%s does not say how many tokens a picture takes" % type(self.module).__name__)
        try:
            with torch.no_grad():
                found = get(**self.given)
        except Exception as problem:
            raise Unfit("the features of a picture could not be counted (%s)" % " ".join(str(problem).split())[:160]) from problem
        found = getattr(found, "pooler_output", found)
        rows = sum(part.numel() // part.shape[-1] for part in (found if isinstance(found, (list, tuple)) else [found]))
        return int(rows) // self.batch

    def length(self, usual: int) -> int:
        """A sequence that has room for the picture and a text."""
        return usual if self.tokens + TEXT <= usual else (self.tokens + TEXT + ROUND - 1) // ROUND * ROUND

    def place(self, ids: Any) -> Dict[str, Any]:
        """The inputs: ids [batch, seq] get the picture's tokens at their beginning."""
        import torch
        seq = ids.shape[1]
        if seq < self.tokens:
            raise Unfit("a sequence of %d is shorter than the %d tokens of a picture" % (seq, self.tokens))
        token = _first(self.config, "image_token_id", "image_token_index")
        if token is None:
            raise Unfit("the configuration names no token that stands for a picture")
        ids = ids.clone()
        ids[ids == token] = 0 if token != 0 else 1
        ids[:, :self.tokens] = token
        kinds = (ids == token).to(torch.int64)
        out = {"input_ids": ids, **self.given}
        if "mm_token_type_ids" in self.names:
            out["mm_token_type_ids"] = kinds
        elif self.config.model_type == "paligemma":
            out["token_type_ids"] = 1 - kinds  # 0: what every token of the prefix sees
        elif "token_type_ids" in self.names:
            out["token_type_ids"] = kinds
        return out


def _arguments(module: Any) -> List[str]:
    import inspect
    return list(inspect.signature(module.forward).parameters)
