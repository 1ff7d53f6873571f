"""Modules of PyTorch: captured by torch.export, or traced where that refuses; left as they were. Needs PyTorch."""
import os
import resource
import subprocess
import sys
import tempfile
import unittest

import plimsoll
from common import ROOT, command

try:
    import torch
    from torch import nn
except ImportError:
    raise unittest.SkipTest("this Python has no PyTorch") from None


def mlp(width=512):
    return nn.Sequential(nn.Linear(100, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, width), nn.ReLU(),
                         nn.Linear(width, 10))


def cnn():
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(64, 10))


class Transformer(nn.Module):
    def __init__(self, vocabulary=1000, width=64, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 4, 128, batch_first=True) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens, labels=None):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(x)
        if labels is None:
            return logits
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


class LayerDrop(nn.Module):
    """Skips blocks at random, as OPT and BART do: control flow on data, which torch.export refuses."""

    def __init__(self, width=256, blocks=3):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for block in self.blocks:
            if torch.rand([]) < 0.0:
                continue
            x = torch.relu(block(x))
        return self.head(x)


class Exported(unittest.TestCase):
    def test_an_mlp(self):
        model = mlp()
        report = plimsoll.estimate(model, torch.zeros(64, 100), optimizer="sgd")
        self.assertEqual((report.via, report.batch, report.warnings), ("export", 64, []))
        self.assertEqual(report.parameters, sum(p.numel() for p in model.parameters()))
        rounded = sum(-(-p.numel() * 4 // 512) * 512 for p in model.parameters())
        self.assertEqual(report.breakdown["weights"], rounded)

    def test_it_is_what_a_user_would_export(self):
        for model, x in ((mlp(), torch.zeros(32, 100)), (cnn(), torch.zeros(16, 3, 32, 32)),
                         (Transformer(), torch.zeros(8, 16).long())):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "model.pt2")
                torch.export.save(torch.export.export(model, (x,), strict=False), path)
                told = command("estimate", path, "--precision", "amp-bf16", "--json")
            report = plimsoll.estimate(model, x, precision="amp-bf16")
            self.assertEqual(report.json["memory"], told["memory"])

    def test_inputs_in_every_form(self):
        model, x, y = Transformer(), torch.zeros(4, 16).long(), torch.zeros(4, 16).long()
        from torch._subclasses import FakeTensorMode
        with FakeTensorMode() as mode:
            fake = mode.from_tensor(x), mode.from_tensor(y)
        peaks = {plimsoll.estimate(model, inputs).peak_bytes for inputs in (
            (x, y), [x, y], dict(tokens=x, labels=y), (x.to("meta"), y.to("meta")), fake)}
        self.assertEqual(len(peaks), 1)

    def test_an_exported_program(self):
        model, x = cnn(), torch.zeros(16, 3, 32, 32)
        program = torch.export.export(model, (x,), strict=False)
        self.assertEqual(plimsoll.estimate(program).peak_bytes, plimsoll.estimate(model, x).peak_bytes)
        self.assertEqual(program.state_dict["0.weight"].device.type, "cpu")

    def test_another_batch_and_length(self):
        model = Transformer()
        one, many = torch.zeros(1, 16).long(), torch.zeros(24, 48).long()
        self.assertEqual(plimsoll.estimate(model, one, batch=24, seq=48).json["memory"],
                         plimsoll.estimate(model, many).json["memory"])

    def test_a_loss_of_the_users(self):
        model, x, y = mlp(), torch.zeros(64, 100), torch.zeros(64).long()
        own = plimsoll.estimate(model, x, loss=nn.CrossEntropyLoss(), targets=y)
        ce = plimsoll.estimate(model, x, loss="ce")
        self.assertEqual(own.via, "export")
        self.assertLess(abs(own.allocated_bytes - ce.allocated_bytes), 65536)
        self.assertGreater(plimsoll.estimate(model, x, loss=lambda out: out.square().mean()).peak_bytes, 0)

    def test_optimizers_of_torch(self):
        model, x = mlp(2048), torch.zeros(8, 100)
        for made, name in ((torch.optim.AdamW(model.parameters(), fused=True), "adamw-fused"), (torch.optim.Adam, "adam"),
                           (torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9), "sgd-momentum"),
                           (torch.optim.SGD(model.parameters(), lr=1.0), "sgd"), (torch.optim.RMSprop, "rmsprop"),
                           (torch.optim.AdamW(model.parameters(), foreach=False), "adamw-single")):
            with self.subTest(name):
                report = plimsoll.estimate(model, x, optimizer=made)
                self.assertEqual(report.settings["optimizer"], name)
                self.assertEqual(report.peak_bytes, plimsoll.estimate(model, x, optimizer=name).peak_bytes)

    def test_frozen_weights(self):
        model, x = mlp(2048), torch.zeros(8, 100)
        whole = plimsoll.estimate(model, x)
        model[3].requires_grad_(False)
        report = plimsoll.estimate(model, x)
        frozen = 2048 * 2048 + 2048
        self.assertEqual(report.trainable, report.parameters - frozen)
        self.assertGreater(whole.allocated_bytes - report.allocated_bytes, 3 * 4 * frozen - 65536)  # gradient, two moments

    def test_wrappers_are_taken_off(self):
        model, x = mlp(), torch.zeros(64, 100)
        report = plimsoll.estimate(torch.compile(model), x)
        self.assertEqual(report.peak_bytes, plimsoll.estimate(model, x).peak_bytes)
        self.assertIn("torch.compile", report.warnings[0])
        self.assertIn("DataParallel", plimsoll.estimate(nn.DataParallel(model), x).warnings[0])

    def test_misspelt_settings(self):
        for inputs in ((mlp(), torch.zeros(4, 100)), (b"{}",)):
            with self.assertRaises(plimsoll.UsageError) as caught:
                plimsoll.estimate(*inputs, optimiser="sgd")
            self.assertEqual(caught.exception.where, "optimiser")
        with self.assertRaises(plimsoll.UsageError):
            plimsoll.max_batch(mlp(), torch.zeros(4, 100), gpu="t4", optimiser="sgd")

    def test_fine_tuning(self):
        model, x = mlp(2048), torch.zeros(8, 100)
        self.assertLess(plimsoll.estimate(model, x, train="head").allocated_bytes, plimsoll.estimate(model, x).allocated_bytes)
        with self.assertRaises(plimsoll.UsageError) as caught:
            plimsoll.estimate(LayerDrop(), torch.zeros(8, 256), train="head")
        self.assertIn("refuses", str(caught.exception))

    def test_an_optimizer_of_the_users(self):
        class Mine(torch.optim.SGD):
            pass

        model, x = mlp(2048), torch.zeros(8, 100)
        report = plimsoll.estimate(model, x, optimizer=Mine(model.parameters(), lr=0.1, momentum=0.9))
        wanted = plimsoll.estimate(model, x, optimizer="sgd-momentum")
        self.assertEqual(report.via, "trace")
        self.assertLess(abs(report.allocated_bytes - wanted.allocated_bytes), 0.02 * wanted.allocated_bytes)

    def test_evaluation_mode_is_reported(self):
        model = mlp().eval()
        report = plimsoll.estimate(model, torch.zeros(64, 100))
        self.assertIn("evaluation mode", report.warnings[0])
        self.assertFalse(model.training)

    def test_the_largest_batch(self):
        model = cnn()
        best = plimsoll.max_batch(model, torch.zeros(1, 3, 224, 224), gpu="t4", optimizer="sgd")
        self.assertGreater(best.batch, 10)
        self.assertEqual(best.via, "export")
        x = torch.zeros(2, 3, 224, 224)
        self.assertTrue(plimsoll.fits(model, x, gpu="t4", optimizer="sgd", batch=best.batch))
        self.assertFalse(plimsoll.fits(model, x, gpu="t4", optimizer="sgd", batch=best.batch + 1))

    def test_the_largest_batch_of_a_fixed_one(self):
        """A batch that the model's code fixes is looked for by capturing it anew."""

        class Fixed(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(4096, 4096)

            def forward(self, x):
                return self.inner(x.view(int(x.shape[0]), 64, 4096).repeat(1, 4, 1)).mean((1, 2))

        model, x = Fixed(), torch.zeros(4, 64 * 4096)
        best = plimsoll.max_batch(model, x, gpu="t4", loss=lambda out: out.sum())
        self.assertTrue(plimsoll.fits(model, x, gpu="t4", batch=best.batch, loss=lambda out: out.sum()))
        self.assertFalse(plimsoll.fits(model, x, gpu="t4", batch=best.batch + 1, loss=lambda out: out.sum()))

    def test_named_tuples_are_returned(self):
        from collections import namedtuple
        Out = namedtuple("Out", "logits aux")

        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(10, 10), nn.Linear(10, 10)

            def forward(self, x):
                return Out(self.a(x), self.b(x))

        self.assertEqual(plimsoll.estimate(Two(), torch.zeros(4, 10)).via, "export")


def rounded(parameters):
    """Bytes of tensors like these as the allocator counts them, in blocks of 512."""
    return sum(-(-p.numel() * p.element_size() // 512) * 512 for p in parameters)


class Optimizers(unittest.TestCase):
    """A name of the library covers all that an optimizer keeps, or the optimizer itself is traced."""

    def setUp(self):
        self.model, self.x = mlp(1024), torch.zeros(8, 100)

    def ask(self, optimizer, **settings):
        return plimsoll.estimate(self.model, self.x, optimizer=optimizer, loss="ce", **settings)

    def test_what_no_name_covers_is_traced(self):
        # Tensors of state a parameter; a fused one has a step counter of four bytes more on the card.
        for kind, settings, states, scalars in (
                ("Adam", dict(amsgrad=True), 3, 0), ("AdamW", dict(amsgrad=True, fused=True), 3, 1),
                ("AdamW", dict(amsgrad=True, foreach=False), 3, 0), ("RMSprop", dict(momentum=0.9), 2, 0),
                ("RMSprop", dict(centered=True), 2, 0), ("RMSprop", dict(weight_decay=0.1), 1, 0),
                ("AdamW", dict(maximize=True), 2, 0), ("AdamW", dict(capturable=True), 2, 1)):
            with self.subTest(kind, **settings):
                report = self.ask(getattr(torch.optim, kind)(self.model.parameters(), **settings))
                self.assertEqual(report.via, "trace")
                weights = list(self.model.parameters())
                self.assertEqual(report.breakdown["optimizer"], states * rounded(weights) + scalars * 512 * len(weights))
                self.assertTrue(any("no rules for the optimizer %s (" % kind.lower() in w for w in report.warnings), report.warnings)

    def test_names_cover_all_settings(self):
        for kind, settings, name in (
                ("SGD", dict(momentum=0.9, weight_decay=0.1, nesterov=True, fused=True), "sgd-momentum-fused"),
                ("SGD", dict(momentum=0.9, nesterov=True), "sgd-momentum"),
                ("SGD", dict(momentum=0.9, nesterov=True, weight_decay=0.1), "sgd-nesterov"),
                ("SGD", dict(momentum=0.9, foreach=False), "sgd-momentum"), ("SGD", dict(weight_decay=0.1, fused=True), "sgd-fused"),
                ("Adam", dict(weight_decay=0.1, fused=True), "adam-fused"), ("AdamW", dict(amsgrad=True), "adamw-amsgrad"),
                ("Adam", dict(weight_decay=0.1), "adam-decay"), ("RMSprop", dict(centered=True, momentum=0.9), "rmsprop-centered")):
            with self.subTest(kind, **settings):
                optimizer = getattr(torch.optim, kind)(self.model.parameters(), lr=0.1, **settings)
                report, traced = self.ask(optimizer), self.ask(optimizer, via="trace")
                self.assertEqual((report.via, report.settings["optimizer"], traced.settings["optimizer"]), ("export", name, name))
                self.assertEqual(report.breakdown["optimizer"], traced.breakdown["optimizer"])
                self.assertLess(abs(report.allocated_bytes - traced.allocated_bytes), 65536)

    def test_part_of_the_parameters(self):
        part = self.model[3]
        report = self.ask(torch.optim.AdamW(part.parameters()))
        self.assertEqual(report.via, "trace")
        self.assertEqual(report.breakdown["optimizer"], 2 * rounded(part.parameters()))
        self.assertGreaterEqual(report.breakdown["gradients"], rounded(self.model.parameters()))  # all have theirs
        self.assertTrue(any("2 of the model's 6 trained parameters" in w for w in report.warnings), report.warnings)
        with self.assertRaises(plimsoll.UsageError):
            self.ask(torch.optim.AdamW(part.parameters()), via="export")
        for other in (self.model[0], self.model[5]):
            other.requires_grad_(False)
        self.assertEqual(self.ask(torch.optim.AdamW(part.parameters())).via, "export")  # all that is trained

    def test_groups(self):
        weights, biases = ([p for p in self.model.parameters() if (p.dim() > 1) is many] for many in (True, False))
        common = self.ask(torch.optim.AdamW([dict(params=weights, weight_decay=0.1), dict(params=biases, weight_decay=0.0)]))
        self.assertEqual((common.via, common.warnings), ("export", []))
        # A layer as large as the largest: no group has almost all.
        self.model[0], self.x = nn.Linear(1024, 1024), torch.zeros(8, 1024)
        layers = [dict(params=[p], lr=0.1 / n) for n, p in enumerate(self.model.parameters(), 1)]
        apart, whole = self.ask(torch.optim.AdamW(layers)), self.ask("adamw")
        self.assertEqual(apart.via, "trace")
        self.assertEqual(apart.breakdown["optimizer"], whole.breakdown["optimizer"])
        self.assertLess(apart.allocated_bytes, whole.allocated_bytes)  # temporaries of one group at a time
        mixed = self.ask(torch.optim.SGD([dict(params=weights[1:], momentum=0.9), dict(params=[*self.model[0].parameters(), *biases[1:]])],
                                         lr=0.1))
        self.assertEqual((mixed.via, mixed.breakdown["optimizer"]), ("trace", rounded(weights[1:])))

    def test_the_parameters_of_another_model(self):
        report = self.ask(torch.optim.AdamW(mlp(64).parameters()))
        self.assertEqual(report.peak_bytes, self.ask("adamw").peak_bytes)
        self.assertIn("none of the model's trained parameters", report.warnings[0])

    def test_a_namesake(self):
        class Adam(torch.optim.SGD):
            pass

        self.assertEqual(self.ask(Adam(self.model.parameters(), lr=0.1)).breakdown["optimizer"], 0)

    def test_what_cannot_be_traced(self):
        optimizer = torch.optim.Adam(self.model.parameters(), amsgrad=True)
        for question in (plimsoll.estimate, plimsoll.max_batch):
            with self.assertRaises(plimsoll.UsageError) as caught:
                question(str(ROOT / "examples" / "resnet18.pt2"), optimizer=optimizer)
            self.assertIn("adam (amsgrad)", str(caught.exception))
        with self.assertRaises(plimsoll.UsageError):
            self.ask(3)
        with self.assertRaises(plimsoll.UsageError):
            self.ask(dict)

    def test_steps_are_counted(self):
        from plimsoll import capture
        recorder = capture.Recorder(steps=None)
        with recorder:
            model = mlp(64).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
            for _ in range(2):
                model(torch.zeros(4, 100, device="cuda")).sum().backward()
                optimizer.step()
        self.assertEqual(recorder.optimizer_steps, 2)


class Untouched(unittest.TestCase):
    def test_no_weight_is_copied(self):
        model = nn.Sequential(*(nn.Linear(8192, 8192, bias=False, device="meta") for _ in range(4))).to_empty(device="cpu")
        x = torch.empty(4, 8192, device="meta")
        plimsoll.estimate(mlp(), torch.zeros(4, 100))  # PyTorch's own first use
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        report = plimsoll.estimate(model, x)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        self.assertEqual(report.parameters, 4 * 8192 * 8192)
        self.assertLess(grown, 256 << 10)  # KiB; the weights are 1 GiB

    def state(self, model):
        return [(n, t.data_ptr(), t.device.type, t._version, t.requires_grad) for n, t in
                [*model.named_parameters(), *model.named_buffers()]]

    def test_the_model_stays_as_it_was(self):
        model, x = cnn(), torch.randn(16, 3, 32, 32)
        before = self.state(model), {k: v.clone() for k, v in model.state_dict().items()}
        plimsoll.estimate(model, x, precision="amp-bf16", channels_last=True)
        self.assertEqual(self.state(model), before[0])
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, before[1][name]), name)
        self.assertTrue(model.training)
        self.assertTrue(all(p.grad is None for p in model.parameters()))

    def test_modes_stay_as_they_were(self):
        """Batch norms frozen in evaluation mode come back so, and are traced so."""
        model, x = cnn(), torch.zeros(16, 3, 32, 32)
        trained = plimsoll.estimate(model, x, via="trace")
        for module in model:
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        before = [m.training for m in model.modules()]
        for via in ("export", "trace"):
            report = plimsoll.estimate(model, x, via=via)
            self.assertEqual([m.training for m in model.modules()], before)
            self.assertFalse(any("evaluation mode" in w for w in report.warnings), report.warnings)
        self.assertNotEqual(report.allocated_bytes, trained.allocated_bytes)

    def test_evaluation_mode_is_traced_as_such(self):
        model, x = nn.Sequential(nn.Linear(100, 64), nn.Dropout(0.5), nn.Linear(64, 10)), torch.zeros(65536, 100)
        trained = plimsoll.estimate(model, x, via="trace")
        report = plimsoll.estimate(model.eval(), x, via="trace")
        self.assertEqual(len([w for w in report.warnings if "evaluation mode" in w]), 1, report.warnings)
        self.assertFalse(any(m.training for m in model.modules()))
        self.assertGreaterEqual(trained.allocated_bytes - report.allocated_bytes, 65536 * 64)  # the mask

    def test_what_cannot_be_copied_is_put_back(self):
        model, x = mlp(), torch.zeros(64, 100)
        peak = plimsoll.estimate(model, x).peak_bytes
        model.held = (i for i in range(3))  # a generator: copy.deepcopy refuses
        before = self.state(model)
        self.assertEqual(plimsoll.estimate(model, x).peak_bytes, peak)
        self.assertEqual(self.state(model), before)

    def test_tied_weights_stay_tied(self):
        model = Transformer()
        report = plimsoll.estimate(model, torch.zeros(4, 16).long())
        self.assertEqual(report.parameters, sum(p.numel() for p in model.parameters()))


class Refused(unittest.TestCase):
    def test_it_is_traced(self):
        model, x = LayerDrop(), torch.zeros(128, 256)
        report = plimsoll.estimate(model, x, optimizer="adam", loss="ce")
        self.assertEqual(report.via, "trace")
        self.assertTrue(any("torch.export refuses" in w for w in report.warnings), report.warnings)
        # The same net without the question is exported, and takes as much.
        plain = nn.Sequential(*(m for i in range(3) for m in (nn.Linear(256, 256), nn.ReLU())), nn.Linear(256, 10))
        wanted = plimsoll.estimate(plain, x, optimizer="adam", loss="ce")
        self.assertLess(abs(report.peak_bytes - wanted.peak_bytes), 0.02 * wanted.peak_bytes)
        self.assertIn("traced", str(report))

    def test_only_export_is_wanted(self):
        with self.assertRaises(plimsoll.InputError) as caught:
            plimsoll.estimate(LayerDrop(), torch.zeros(8, 256), via="export")
        self.assertIn("refuses", str(caught.exception))

    def test_nothing_is_printed(self):
        code = ("import sys; sys.path.insert(0, %r); import test_torch as t, torch, plimsoll\n"
                "try: plimsoll.estimate(t.LayerDrop(), torch.zeros(8, 256), via='export')\n"
                "except plimsoll.InputError: pass" % os.path.dirname(os.path.abspath(__file__)))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertNotIn("aten", done.stderr)

    def test_both_roads_agree(self):
        for model, x in ((mlp(), torch.zeros(64, 100)), (Transformer(), torch.zeros(16, 32).long())):
            for precision in (None, "amp-bf16"):
                a = plimsoll.estimate(model, x, via="export", loss="ce", precision=precision)
                b = plimsoll.estimate(model, x, via="trace", loss="ce", precision=precision)
                with self.subTest(type(model).__name__, precision=precision):
                    self.assertEqual((a.via, b.via), ("export", "trace"))
                    self.assertLess(abs(a.peak_bytes - b.peak_bytes), 0.02 * a.peak_bytes)

    def test_a_model_that_does_not_run(self):
        with self.assertRaises(plimsoll.InputError) as caught:
            plimsoll.estimate(mlp(), torch.zeros(64, 99))
        self.assertIn("99", str(caught.exception))

    def test_inputs_are_needed(self):
        with self.assertRaises(plimsoll.UsageError):
            plimsoll.estimate(mlp())


class Examples(unittest.TestCase):
    def test_the_notebook(self):
        """Its cells run, and the second shows a card."""
        import contextlib
        import io
        import json
        examples = ROOT / "examples"
        cells = [c for c in json.loads((examples / "notebook.ipynb").read_text())["cells"] if c["cell_type"] == "code"]
        space, said = {}, io.StringIO()
        sys.path.insert(0, str(examples))
        try:
            with contextlib.redirect_stdout(said):
                for n, cell in enumerate(cells):
                    code = "".join(cell["source"])
                    if n == 1:  # the value of its last line is what a notebook shows
                        space["shown"] = eval(code, space)
                    else:
                        exec(code, space)
        finally:
            sys.path.remove(str(examples))
        self.assertIn("<svg", space["shown"]._repr_html_())
        self.assertRegex(said.getvalue(), "checkpoint True largest batch [0-9]+ on NVIDIA A100 40GB")


class Configurations(unittest.TestCase):
    def test_a_pretrained_config(self):
        try:
            import transformers
        except ImportError:
            self.skipTest("no transformers")
        config = transformers.AutoConfig.for_model("gpt2", n_layer=2)
        report = plimsoll.estimate(config, batch=4, seq=128)
        self.assertEqual((report.via, report.batch, report.seq), ("config", 4, 128))

    def test_a_cache_is_not_exported(self):
        """A causal model that returns its cache is traced; without, it is exported."""
        try:
            import transformers
        except ImportError:
            self.skipTest("no transformers")
        config = transformers.AutoConfig.for_model("llama", hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                                   num_attention_heads=4, num_key_value_heads=2, vocab_size=1000)
        self.assertTrue(config.use_cache)
        model = transformers.AutoModelForCausalLM.from_config(config).train()
        tokens = torch.zeros(2, 16).long()
        report = plimsoll.estimate(model, dict(input_ids=tokens, labels=tokens))
        self.assertEqual(report.via, "trace")
        self.assertTrue(any("use_cache = False" in w for w in report.warnings), report.warnings)
        model.config.use_cache = False
        self.assertEqual(plimsoll.estimate(model, dict(input_ids=tokens, labels=tokens)).via, "export")
