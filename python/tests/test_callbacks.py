"""The callbacks in real runs of transformers' Trainer and of Lightning on the CPU: what they print, that they refuse, and that
a run with one is, to the bit, the run without it."""
import contextlib
import io
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
import warnings

import common

import plimsoll

try:
    import torch
    import transformers
except ImportError as problem:
    raise unittest.SkipTest("no transformers: %s" % problem) from None

from plimsoll import _callback


def quietly(function):
    """(what it gives, what it printed, its warnings)"""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = function()
    return result, out.getvalue(), [str(w.message) for w in seen]


class Stream(torch.utils.data.IterableDataset):
    """Each sample once: what is taken from it is gone."""

    def __init__(self):
        self.source = iter(range(12))

    def __iter__(self):
        for i in self.source:
            yield dict(input_ids=torch.full((16,), i), labels=torch.full((16,), i))


class HuggingFace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            import accelerate  # noqa: F401
        except ImportError as problem:
            raise unittest.SkipTest("no accelerate: %s" % problem) from None
        transformers.logging.set_verbosity_error()

    def run_it(self, callback=None, data=None, vocabulary=200, **changes):
        def go():
            torch.manual_seed(3)
            config = transformers.AutoConfig.for_model("gpt2", n_layer=1, n_embd=32, n_head=2, vocab_size=vocabulary, n_positions=32,
                                                       bos_token_id=0, eos_token_id=0)
            model = transformers.AutoModelForCausalLM.from_config(config)
            samples = data if data is not None else [dict(input_ids=torch.randint(0, 200, (16,)), labels=torch.randint(0, 200, (16,)))
                                                     for _ in range(12)]
            with tempfile.TemporaryDirectory() as folder:
                arguments = dict(per_device_train_batch_size=4, max_steps=2, report_to=[], save_strategy="no", logging_steps=1, use_cpu=True,
                                 disable_tqdm=True)
                trainer = transformers.Trainer(model, transformers.TrainingArguments(folder, **dict(arguments, **changes)),
                                               train_dataset=samples, callbacks=[callback] if callback else None)
                trainer.train()
            self.assertFalse(model._forward_pre_hooks)
            return [row["loss"] for row in trainer.state.log_history if "loss" in row], torch.rand(1).item()

        return quietly(go)

    def test_a_run(self):
        from plimsoll.hf import PlimsollCallback
        callback = PlimsollCallback()
        plain, _, _ = self.run_it()
        with_it, said, warned = self.run_it(callback)
        self.assertEqual(plain, with_it)
        self.assertFalse([w for w in warned if "plimsoll" in w], warned)
        self.assertIn("plimsoll: peak ", said)
        self.assertIn("batch 4, sequence 16", said)
        self.assertIn("there is no card here: nothing to fit", said)
        self.assertIn("there is no card here, and nothing to compare it with", said)
        self.assertLess(said.index("plimsoll: peak"), said.index("'loss'"))
        self.assertEqual((callback.report.batch, callback.report.seq), (4, 16))

    def test_settings_are_the_trainers(self):
        from plimsoll.hf import PlimsollCallback
        callback = PlimsollCallback(gpu="a100-80gb")
        _, said, warned = self.run_it(callback, bf16=True, gradient_accumulation_steps=3, gradient_checkpointing=True, optim="adafactor")
        self.assertIn("amp-bf16", said, warned)
        self.assertIn("3 backward passes per step, checkpointing", said)
        self.assertIn("adafactor", said.lower())
        self.assertIn("fits NVIDIA A100", said)
        own = callback.report
        self.assertEqual(own.settings["precision"], "amp-bf16")

    def test_a_stream_is_not_consumed(self):
        from plimsoll.hf import PlimsollCallback
        plain, _, _ = self.run_it(data=Stream(), max_steps=3)
        with_it, said, _ = self.run_it(PlimsollCallback(), data=Stream(), max_steps=3)
        self.assertEqual(plain, with_it)
        self.assertIn("plimsoll: peak ", said)

    def test_it_refuses_or_warns(self):
        from plimsoll.hf import DoesNotFit, PlimsollCallback
        small = plimsoll.estimate(common.EXAMPLE, gpu="t4").gpu.name + ",memory=300MiB"
        with self.assertRaises(DoesNotFit) as caught:
            self.run_it(PlimsollCallback("refuse", gpu=small), vocabulary=600000)
        self.assertIn("does not fit", str(caught.exception))
        self.assertEqual(caught.exception.report.verdict, "does not fit")
        _, said, warned = self.run_it(PlimsollCallback("warn", gpu=small), vocabulary=600000)
        self.assertTrue(any("this training does not fit" in w for w in warned), warned)
        self.assertIn("'loss'", said)
        with self.assertRaises(plimsoll.UsageError):
            PlimsollCallback("perhaps")
        for wrong in (dict(gpu="no-such-card"), dict(risk=7), dict(precison="bf16"), dict(precision="bf17"), dict(gpus="no-such-file")):
            with self.assertRaises(plimsoll.Error, msg=str(wrong)):
                PlimsollCallback("refuse", **wrong)
        PlimsollCallback("refuse", gpu="l4", risk=0.1, alloc_conf="expandable_segments:True", via="trace", batch=2)

    def test_a_failure_is_a_warning(self):
        from plimsoll.hf import PlimsollCallback
        plain, _, _ = self.run_it()
        with unittest.mock.patch("plimsoll._callback.estimate", side_effect=RuntimeError("broken on purpose")):
            with_it, said, warned = self.run_it(PlimsollCallback("refuse"))
        self.assertEqual(plain, with_it)
        self.assertTrue(any("no estimate: RuntimeError: broken on purpose" in w for w in warned), warned)

    def test_rank_0_prints(self):
        from plimsoll.hf import PlimsollCallback
        model = torch.nn.Linear(4, 4)
        callback = PlimsollCallback()
        callback.on_train_begin(types.SimpleNamespace(), types.SimpleNamespace(is_world_process_zero=False), None, model=model)
        self.assertFalse(model._forward_pre_hooks)


def lightning():
    try:
        import pytorch_lightning
    except ImportError as problem:
        raise unittest.SkipTest("no pytorch_lightning: %s" % problem) from None
    return pytorch_lightning


class Lightning(unittest.TestCase):
    def run_it(self, callback=None, width=64, **changes):
        pl = lightning()

        class Net(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(width, 4))
                self.seen, self.handle = [], open(__file__)

            def training_step(self, batch, batch_idx):
                x, y = batch
                loss = torch.nn.functional.cross_entropy(self.net(x), y)
                self.log("loss", loss)
                if self.trainer.max_steps:
                    return loss

            def on_train_batch_end(self, outputs, batch, batch_idx):
                self.seen.append(float(outputs["loss"]))

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

            def __getstate__(self):
                return {k: v for k, v in super().__getstate__().items() if k != "handle"}

        def go():
            torch.manual_seed(3)
            data = torch.utils.data.TensorDataset(torch.randn(24, 8), torch.randint(0, 4, (24,)))
            module = Net()
            trainer = pl.Trainer(max_steps=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                 enable_model_summary=False, callbacks=[callback] if callback else [], **changes)
            trainer.fit(module, torch.utils.data.DataLoader(data, 4, shuffle=True))
            module.handle.close()
            self.assertNotIn("log", module.__dict__)
            self.assertIs(module._trainer, trainer)
            return module.seen, torch.rand(1).item()

        return quietly(go)

    def test_a_run(self):
        lightning()
        from plimsoll.lightning import PlimsollCallback
        callback = PlimsollCallback(gpu="t4")
        plain, _, _ = self.run_it(accumulate_grad_batches=2)
        with_it, said, warned = self.run_it(callback, accumulate_grad_batches=2)
        self.assertEqual(plain, with_it)
        self.assertFalse([w for w in warned if "plimsoll" in w], warned)
        self.assertIn("plimsoll: Net: ", said)
        self.assertIn("sgd-momentum, 2 backward passes per step, on NVIDIA T4", said)
        self.assertIn("plimsoll: fits NVIDIA T4", said)
        self.assertIn("there is no card here, and nothing to compare it with", said)

    def test_it_refuses(self):
        lightning()
        from plimsoll.lightning import DoesNotFit, PlimsollCallback
        with self.assertRaises(DoesNotFit):
            self.run_it(PlimsollCallback("refuse", gpu="t4,memory=300MiB"), width=4000000)


class Parts(unittest.TestCase):
    def test_the_package_alone_imports_neither(self):
        script = "import plimsoll, sys; sys.exit(any(n in sys.modules for n in ('torch', 'transformers', 'lightning', 'pytorch_lightning')))"
        self.assertEqual(subprocess.run([sys.executable, "-c", script]).returncode, 0)

    def test_the_card_that_is_there(self):
        def card(name, total, capability=(9, 0)):
            properties = types.SimpleNamespace(name=name, total_memory=total, major=capability[0], minor=capability[1])
            with unittest.mock.patch("torch.cuda.is_available", return_value=True), \
                    unittest.mock.patch("torch.cuda.current_device", return_value=0), \
                    unittest.mock.patch("torch.cuda.get_device_properties", return_value=properties):
                return _callback.Card(None)

        self.assertEqual(card("NVIDIA H200", 150109880320).gpu, "h200")
        self.assertEqual(card("NVIDIA A100-SXM4-80GB", 85017493504, (8, 0)).gpu, "a100-80gb")
        self.assertEqual(card("Tesla T4", 15655829504, (7, 5)).gpu, "t4")
        own = card("NVIDIA Nobody 9999", 50 << 30)
        self.assertTrue(own.gpu.endswith(",memory=51200MiB"), own.gpu)
        self.assertIn("not in the catalogue", own.said[0])
        self.assertEqual(plimsoll.estimate(common.EXAMPLE, gpu=own.gpu).gpu.capacity_bytes, 50 << 30)

    def test_predicted_against_real(self):
        watch = _callback.Watch("warn", None, None, {})
        watch.report = plimsoll.estimate(common.EXAMPLE)
        watch.card = types.SimpleNamespace(here=True, device=0)
        gib = 1 << 30
        with unittest.mock.patch("torch.cuda.max_memory_reserved", return_value=2 * gib), \
                unittest.mock.patch("torch.cuda.memory_reserved", return_value=gib), \
                unittest.mock.patch("plimsoll._callback.nvml_used", return_value=gib + gib // 2):
            _, said, _ = quietly(watch.after)
        self.assertIn("real 2.50 GiB (2.00 GiB reserved, 512.0 MiB outside the allocator, as NVML shows)", said)
        self.assertIn("predicted %+.1f %%" % (100 * (watch.report.peak_bytes / (2.5 * gib) - 1)), said)

    def test_random_numbers_go_on(self):
        import random

        import numpy

        def draws():
            return torch.rand(1).item(), random.random(), numpy.random.rand()

        states = torch.get_rng_state(), random.getstate(), numpy.random.get_state()
        wanted = draws()
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        numpy.random.set_state(states[2])
        with _callback.undisturbed():
            draws()
        self.assertEqual(draws(), wanted)
