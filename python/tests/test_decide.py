"""What makes a job fit, the longest sequence, the fewest cards, the smallest card. Without PyTorch."""
import json
import unittest

import plimsoll
from common import EXAMPLE, ROOT, command

CONFIG = json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "intermediate_size": 2816,
                     "num_hidden_layers": 12, "num_attention_heads": 16, "vocab_size": 32000}).encode()


class Decisions(unittest.TestCase):
    def test_every_remedy_fits(self):
        asked = dict(batch=64, seq=1024, gpu="t4", precision="fp32")
        found = plimsoll.remedies(CONFIG, **asked)
        self.assertFalse(found.fits)
        self.assertTrue(found and found.complete and found.nearest is None)
        self.assertEqual([r.weight for r in found], sorted(r.weight for r in found))
        for remedy in found[:4]:
            report = plimsoll.estimate(CONFIG, **dict(asked, **remedy.settings))
            self.assertEqual((report.verdict, report.peak_bytes, report.upper_bytes), ("fits", remedy.peak_bytes, remedy.upper_bytes))
            self.assertIn(next(iter(remedy.settings)), str(remedy))
        self.assertEqual(len(str(found).splitlines()), len(found))

    def test_one_that_fits_needs_none(self):
        found = plimsoll.remedies(plimsoll.load(EXAMPLE), batch=1)
        self.assertTrue(found.fits and not found)
        self.assertEqual(str(found), "it fits as it is")

    def test_they_are_the_commands(self):
        told = command("explain", EXAMPLE, "--batch", "2048", "--gpu", "t4", "--json")["remedies"]
        found = plimsoll.remedies(EXAMPLE, batch=2048, gpu="t4")
        self.assertEqual([{k: str(v).replace("True", "true") for k, v in r.settings.items()} for r in found], [r["settings"] for r in told])
        self.assertEqual([r.upper_bytes for r in found], [r["upper_bytes"] for r in told])

    def test_the_most_and_the_least(self):
        seq = plimsoll.max_seq(CONFIG, batch=2, gpu="l4")
        self.assertTrue(plimsoll.fits(CONFIG, batch=2, seq=int(seq), gpu="l4"))
        self.assertFalse(plimsoll.fits(CONFIG, batch=2, seq=seq.value + 1, gpu="l4"))
        asked = dict(batch=2, seq=128, gpu="rtx3070", optimizer="adamw", precision="fp32")
        big = json.dumps(dict(json.loads(CONFIG), num_hidden_layers=60)).encode()
        ranks = plimsoll.min_gpus(big, **asked)
        self.assertGreater(ranks.value, 1)
        self.assertTrue(plimsoll.fits(big, parallel="fsdp2:%d" % ranks.value, **asked))
        self.assertFalse(plimsoll.fits(big, parallel="fsdp2:%d" % (ranks.value - 1), **asked))
        smallest = plimsoll.smallest_gpu(CONFIG, batch=8, seq=512)
        fitting = [g for g in plimsoll.gpus() if "." not in g.name and plimsoll.fits(CONFIG, batch=8, seq=512, gpu=g.name)]
        self.assertEqual(smallest.capacity_bytes, min(g.capacity_bytes for g in fitting))
        with self.assertRaises(plimsoll.UsageError):
            plimsoll.max_seq(CONFIG, seq=3)
        with self.assertRaises(plimsoll.UsageError):
            plimsoll.max_seq(str(ROOT / "examples" / "resnet18.pt2"))
        with self.assertRaises(plimsoll.UsageError):
            plimsoll.min_gpus(CONFIG, parallel="ddp:2")


if __name__ == "__main__":
    unittest.main()
