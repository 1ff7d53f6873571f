"""Configurations of families that the library does not know: built by transformers on the meta device, and answered as
the same model is that a user builds and gives with the same inputs."""
import json
import os
import tempfile
import unittest
import unittest.mock

import common  # noqa: F401 (where things lie)

import plimsoll
from plimsoll import _family

try:
    import torch
    import transformers
except ImportError as problem:
    raise unittest.SkipTest("no transformers: %s" % problem) from None

TEXT = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=300,
            max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2)
ENCODER = {k: v for k, v in TEXT.items() if k != "num_key_value_heads"}

# model_type: what differs from its defaults, the class that is built
FAMILIES = {
    "phimoe": (dict(TEXT, num_local_experts=4, num_experts_per_tok=2), "PhimoeForCausalLM"),
    "mpnet": (dict(ENCODER), "MPNetForMaskedLM"),
    "squeezebert": (dict(ENCODER, embedding_size=64), "SqueezeBertForMaskedLM"),
    "mobilebert": (dict(ENCODER, embedding_size=32, intra_bottleneck_size=32, num_feedforward_networks=2), "MobileBertForMaskedLM"),
    "mobilenet_v2": (dict(num_labels=7, image_size=64), "MobileNetV2ForImageClassification"),
    "poolformer": (dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_labels=7), "PoolFormerForImageClassification"),
    "focalnet": (dict(embed_dim=24, depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3], num_labels=7, image_size=64),
                 "FocalNetForImageClassification"),
}


def config_of(kind):
    changes, _ = FAMILIES[kind]
    return transformers.AutoConfig.for_model(kind, **changes)


class Families(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        transformers.logging.set_verbosity_error()

    def test_the_same_as_the_model_itself(self):
        for kind, (_, name) in FAMILIES.items():
            with self.subTest(kind):
                self.assertFalse(_family.known(kind))
                config = config_of(kind)
                before = json.dumps(config.to_dict(), default=str, sort_keys=True)
                report = plimsoll.estimate(config, batch=3, optimizer="sgd")
                self.assertEqual(json.dumps(config.to_dict(), default=str, sort_keys=True), before)
                self.assertIn(report.via, ("export", "trace"))
                self.assertIn("built of the configuration by transformers %s" % transformers.__version__, report.warnings[0])
                self.assertIn(name, report.warnings[0])
                own = config_of(kind)
                own.use_cache = False
                model = getattr(transformers, name)(own).train()  # on the CPU, with weights
                self.assertEqual(report.parameters, sum(p.numel() for p in model.parameters()))
                if name.endswith("ForImageClassification"):
                    side = 64 if getattr(own, "image_size", None) == 64 else 224
                    inputs = dict(pixel_values=torch.zeros(3, 3, side, side), labels=torch.zeros(3, dtype=torch.int64))
                else:
                    inputs = dict(input_ids=torch.ones(3, 128, dtype=torch.int64), labels=torch.ones(3, 128, dtype=torch.int64))
                wanted = plimsoll.estimate(model, inputs, optimizer="sgd")
                self.assertEqual((report.peak_bytes, report.breakdown), (wanted.peak_bytes, wanted.breakdown))

    def test_batch_and_sequence(self):
        config = config_of("phimoe")
        assumed = plimsoll.estimate(config)
        self.assertEqual((assumed.batch, assumed.seq), (1, 128))
        self.assertIn("assumed: a batch of 1, a sequence of 128", assumed.warnings[0])
        given = plimsoll.estimate(config, batch=4, seq=32)
        self.assertEqual((given.batch, given.seq), (4, 32))
        self.assertNotIn("assumed:", given.warnings[0])
        self.assertGreater(plimsoll.max_batch(config, seq=32, gpu="t4", most=64).batch, 1)
        with self.assertRaises(plimsoll.UsageError):
            plimsoll.estimate(config, batch=0)

    def test_task_and_architectures(self):
        config = config_of("mpnet")
        self.assertIn("MPNetForSequenceClassification, as the task says", plimsoll.estimate(config, batch=2, task="classify").warnings[0])
        config.architectures = ["MPNetForTokenClassification"]
        self.assertIn("MPNetForTokenClassification, as architectures says", plimsoll.estimate(config, batch=2).warnings[0])
        with self.assertRaisesRegex(plimsoll.UsageError, "no model for the task seq2seq"):
            plimsoll.estimate(config, task="seq2seq")

    def test_known_families_stay(self):
        config = transformers.AutoConfig.for_model("llama", **TEXT)
        self.assertEqual(plimsoll.estimate(config, batch=2).via, "config")

    def test_a_path_and_a_model_without_inputs(self):
        config = config_of("phimoe")
        wanted = plimsoll.estimate(config, batch=2, seq=16)
        with tempfile.TemporaryDirectory() as folder:
            config.save_pretrained(folder)
            path = os.path.join(folder, "config.json")
            report = plimsoll.estimate(path, batch=2, seq=16)
            self.assertEqual((report.via, report.peak_bytes), (wanted.via, wanted.peak_bytes))
            # Without transformers: the library's guess, as the command has it.
            with unittest.mock.patch("importlib.util.find_spec", return_value=None):
                guess = plimsoll.estimate(path, batch=2, seq=16)
            self.assertEqual(guess.via, "file")
            self.assertTrue(any("built as llama" in w for w in guess.warnings), guess.warnings)
        own = config_of("phimoe")
        own.use_cache = False
        report = plimsoll.estimate(transformers.PhimoeForCausalLM(own).train(), batch=2, seq=16)
        self.assertEqual((report.via, report.peak_bytes), (wanted.via, wanted.peak_bytes))
        self.assertIn("there are no example inputs", report.warnings[0])

    def test_what_cannot_be_built_says_why(self):
        config = transformers.AutoConfig.for_model("qwen2_audio", text_config=dict(TEXT, model_type="llama"))
        report = plimsoll.estimate(config, batch=1, seq=16)
        self.assertIn("takes text and other inputs together", report.warnings[0])
        self.assertTrue(any("text model" in w for w in report.warnings), report.warnings)
        with self.assertRaisesRegex(plimsoll.InputError, "is not one of.*; and "):
            plimsoll.estimate(transformers.AutoConfig.for_model("encodec"), batch=1)
