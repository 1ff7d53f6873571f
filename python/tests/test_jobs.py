"""Jobs that make no sense, from Python: each is answered or refused by one of plimsoll's exceptions. Without PyTorch."""
import decimal
import fractions
import json
import math
import os
import pathlib
import random
import unittest

import plimsoll
from common import EXAMPLE, ROOT
from plimsoll._errors import CLASSES

JOBS = 10000
SETTINGS = ("batch", "seq", "precision", "optimizer", "train", "loss", "checkpoint", "accumulate", "channels_last", "cudnn_benchmark",
            "alloc_conf", "parallel", "gpu", "estimator", "host_speed", "copy_gbps", "risk", "memory_limit", "timeout_ms", "depth_limit", "task",
            "attention",
            "no_such_setting")


class Odd:
    """An object that answers nothing."""

    def __repr__(self):
        raise RuntimeError("no repr")

    def __bool__(self):
        raise RuntimeError("no truth")


class Index:
    """A whole number by __index__ alone."""

    def __index__(self):
        return 4


# Of each setting: what it takes, so that random jobs get past the first one that is wrong.
GOOD = {
    "batch": (1, 8, Index()), "seq": (None,), "precision": (None, "amp-bf16", "FP32"), "optimizer": (None, "adamw", "sgd"), "train": (None, "head"),
    "loss": ("auto", "ce", "none"), "checkpoint": (True, False, None), "accumulate": (1, 2), "channels_last": (True, False),
    "cudnn_benchmark": (True, False), "alloc_conf": (None, "expandable_segments:True"), "parallel": (None, "ddp:8", "fsdp2:4:3:mp"),
    "gpu": ("h200", "T4"), "estimator": ("hybrid", "sim"), "host_speed": (None, 1, 0.5), "copy_gbps": (None, 20.0, math.inf),
    "load": (None, "auto", "FULL"), "risk": (None, 0.005, 0.1, 0.5),
    "memory_limit": (None, 1 << 30), "timeout_ms": (None, 600000), "depth_limit": (None, 64), "task": (None,), "attention": (None,),
}
ODD = (0, -1, 1, 4097, 2**31 - 1, 2**31, 2**32 + 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 2**64 + 1, 10**400, 10**5000, -2**63, -10**30,
       0.0, -0.0, 0.05, 1.5, 1e308, 5e-324, math.nan, math.inf, -math.inf, True, False, None, "", " ", "many", "8", "adamw\0sgd", "\0", "h200\n",
       "\ud800", "\udc80", "\udcff" * 300, "é" * 200, "a" * 100000, "ddp", "ddp:", "ddp:0", "ddp:-1", "ddp:99999999999999999999", "fsdp2:2:9",
       "fsdp2:2:3:xx", "max_split_size_mb:-1", "garbage_collection_threshold:nan", "garbage_collection_threshold:1e999", "lora-r0",
       "lora-r99999999999", "%s%n%d", b"adamw", bytearray(b"x"), memoryview(b"x"), (), [], {}, set(), [1, 2], {"a": 1}, object(), Odd(), Index(),
       Index, len, lambda x: x, int, ..., 1j, decimal.Decimal("NaN"), decimal.Decimal(2), fractions.Fraction(1, 3), pathlib.Path("/no/such"),
       range(3), Exception("x"), NotImplemented)


class Jobs(unittest.TestCase):
    def ask(self, model, settings):
        """Whether it was answered; anything but an answer and plimsoll's exceptions is a failure."""
        try:
            report = plimsoll.estimate(model, **settings)
        except plimsoll.Error as problem:
            self.assertIs(CLASSES[problem.code], type(problem))
            self.assertTrue(problem.message)
            str(problem).encode("utf-8", "surrogateescape")
            return False
        self.assertGreater(report.peak_bytes, 0, settings)
        return True

    def test_random_ones(self):
        rng = random.Random(11)
        models = [str(ROOT / "examples" / "mlp.yaml"), (ROOT / "examples" / "mlp.yaml").read_bytes()]
        answered = 0
        for i in range(JOBS):
            settings = {name: rng.choice(GOOD[name]) for name in rng.sample(sorted(GOOD), rng.randint(0, 6))}
            for name in rng.sample(SETTINGS, rng.choice((0, 1, 1, 1, 2, 3))):
                settings[name] = rng.choice(ODD)
            with self.subTest(job=i, names=sorted(settings)):
                answered += self.ask(rng.choice(models), settings)
        self.assertGreater(answered, JOBS // 20)
        self.assertLess(answered, JOBS * 9 // 10)

    def test_every_odd_value_of_every_setting(self):
        model = str(ROOT / "examples" / "mlp.yaml")
        for name in SETTINGS:
            for n, value in enumerate(ODD):
                with self.subTest(setting=name, value=n):
                    self.ask(model, {name: value})

    def test_numbers_are_not_cut_to_a_words_length(self):
        model = plimsoll.load(EXAMPLE)
        for name in ("batch", "accumulate"):
            for value in (2**32 + 1, 2**64 + 1):
                with self.subTest(name), self.assertRaises(plimsoll.Error):
                    model.estimate(**{name: value})
        for name, value in (("memory_limit", -1), ("memory_limit", 2**64 + (1 << 30)), ("depth_limit", 2**32 + 64), ("depth_limit", 0),
                            ("timeout_ms", 0), ("timeout_ms", -1), ("timeout_ms", "1000"), ("timeout_ms", 2**63)):
            with self.subTest(name), self.assertRaises(plimsoll.UsageError) as caught:
                plimsoll.load(EXAMPLE, **{name: value})
            self.assertEqual(caught.exception.where, name)
        told = plimsoll.estimate(EXAMPLE).json
        told["memory"]["high_bytes"] = 2**64 + 1
        with self.assertRaises(plimsoll.InputError):
            plimsoll.collocate(told, told)

    def test_limits(self):
        asked = {"timeout_ms": 600000, "depth_limit": 64, "memory_limit": 1 << 30}
        self.assertEqual(plimsoll.estimate(EXAMPLE, **asked).peak_bytes, plimsoll.estimate(EXAMPLE).peak_bytes)
        for name, value, error in (("depth_limit", 1, plimsoll.Error), ("memory_limit", 1000, plimsoll.LimitError)):
            with self.subTest(name), self.assertRaises(error):
                plimsoll.estimate(EXAMPLE, **{name: value})

    def test_a_time_limit_ends_a_long_request(self):
        config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 4000, "n_embd": 64, "n_head": 2, "n_positions": 128,
                  "vocab_size": 1000}
        with self.assertRaises(plimsoll.LimitError):
            plimsoll.estimate(json.dumps(config).encode(), batch=2, seq=64, timeout_ms=1)

    def test_words_are_no_flags(self):
        for value in ("no", "", 0, 1, [], Odd()):
            with self.assertRaises(plimsoll.UsageError) as caught:
                plimsoll.estimate(EXAMPLE, checkpoint=value)
            self.assertEqual(caught.exception.where, "checkpoint")

    def test_other_questions(self):
        for value in ODD:
            for ask in (lambda: plimsoll.max_batch(EXAMPLE, most=value), lambda: plimsoll.collocate(EXAMPLE, EXAMPLE, gpu=value),
                        lambda: plimsoll.collocate(value, EXAMPLE), lambda: plimsoll.collocate(EXAMPLE, EXAMPLE, sharing=value),
                        lambda: plimsoll.load(value), lambda: plimsoll.fits(value, gpu="t4")):
                try:
                    ask()
                except plimsoll.Error:
                    pass

    def test_paths(self):
        class Named:
            def __fspath__(self):
                return os.fsencode(EXAMPLE)

        self.assertGreater(plimsoll.estimate(Named()).peak_bytes, 0)
        for path in ("\ud800.pt2", "a\0b", "\udcff.pt2", "", "a" * 10000, pathlib.Path("\ud800")):
            with self.assertRaises(plimsoll.Error):
                plimsoll.estimate(path)
