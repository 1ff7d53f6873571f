"""Numbers under the tracer: CPU tensors are real, small ones on the card that follow from known numbers are known, and
a made-up one never becomes a size, an index or a split. Needs PyTorch."""
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import unittest

import plimsoll

try:
    import numpy as np
    import torch
    from torch import nn
except ImportError:
    raise unittest.SkipTest("this Python has no PyTorch") from None

from plimsoll import _values, capture

CARD = "cuda"


def recorded(function, steps=None, **settings):
    """The trace of a function that trains, and what it gave back."""
    recorder = capture.Recorder(steps=steps, **settings)
    result = None
    try:
        with recorder:
            result = function()
    except capture.StepDone:
        pass
    return json.loads(recorder.trace()), result, recorder


def peak(trace):
    return plimsoll.Model(json.dumps(trace).encode(), "model", "trace").estimate(gpu="h200")


def train(model, x, loss=None, steps=2):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        out = model(x)
        (out.sum() if loss is None else loss(out)).backward()
        optimizer.step()


def with_model(function):
    """What a function of a model's output on the card gives, in a recorder."""

    def run():
        model = nn.Linear(8, 8).to(CARD)
        train(model, torch.randn(4, 8, device=CARD))
        return function(model(torch.randn(4, 8, device=CARD)))

    return recorded(run)[1]


class OnTheCpu(unittest.TestCase):
    def test_batches_as_nanogpt_cuts_them(self):
        block, batch = 16, 12
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "train.bin")
            np.arange(1000, dtype=np.uint16).tofile(path)
            data = np.memmap(path, dtype=np.uint16, mode="r")

            def get_batch():
                ix = torch.randint(len(data) - block, (batch,))
                x = torch.stack([torch.from_numpy((data[i:i + block]).astype(np.int64)) for i in ix])
                y = torch.stack([torch.from_numpy((data[i + 1:i + 1 + block]).astype(np.int64)) for i in ix])
                return ix, x.pin_memory().to(CARD, non_blocking=True), y.pin_memory().to(CARD, non_blocking=True)

            def run():
                torch.manual_seed(1)
                ix, x, y = get_batch()
                model = nn.Embedding(1000, 4).to(CARD)
                train(model, x)
                return ix.tolist(), tuple(x.shape), bool((x[:, 1:] == y[:, :-1]).all()), (x[:, 0].cpu() == ix).all().item()

            trace, (ix, shape, shifted, begins), _ = recorded(run)
            torch.manual_seed(1)
            self.assertEqual(ix, torch.randint(len(data) - block, (batch,)).tolist())
        self.assertEqual((shape, shifted, begins, trace["job"]["batch"]), ((batch, block), True, True, batch))
        self.assertFalse(any("not computed" in w for w in trace["warnings"]), trace["warnings"])

    def test_large_tensors_are_real(self):
        def run():
            train(nn.Linear(8, 8).to(CARD), torch.randn(4, 8).to(CARD))
            x = torch.arange(3 << 20)
            return x.sum().item(), random.Random(1).random(), np.random.RandomState(1).rand()

        count = 3 << 20
        self.assertEqual(recorded(run)[1], (count * (count - 1) // 2, random.Random(1).random(), np.random.RandomState(1).rand()))

    def test_the_generator_is_where_a_run_leaves_it(self):
        def run():
            model = nn.Linear(8, 8).to(CARD)
            torch.manual_seed(5)
            torch.rand(7, device=CARD).tolist()
            torch.randperm(9, device=CARD).tolist()
            train(model, torch.randn(4, 8).to(CARD))
            return torch.randint(0, 1 << 30, (4,)).tolist()

        torch.manual_seed(5)
        torch.randn(4, 8)
        wanted = torch.randint(0, 1 << 30, (4,)).tolist()
        self.assertEqual(recorded(run)[1], wanted)

    def test_weights_cost_nothing(self):
        import resource

        def run():
            model = nn.Sequential(*(nn.Linear(16384, 16384) for _ in range(8)))  # 8 GiB
            kept = [p.detach().clone() for p in model.parameters()]
            return sum(p.numel() for p in kept)

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        recorder = capture.Recorder(steps=None)
        with recorder:
            self.assertEqual(run(), 8 * (16384 * 16384 + 16384))
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 512 << 10)

    def test_what_the_machine_has_no_room_for(self):
        recorder = capture.Recorder(steps=None)
        with recorder:
            x = torch.zeros(1 << 40)
            self.assertEqual(x.shape, (1 << 40,))
            x[:4].tolist()
        self.assertTrue(any("was not made" in w for w in recorder.warnings), recorder.warnings)


class Loaded(unittest.TestCase):
    """Checkpoints: numbers for the CPU are read, weights and what goes to the card are fake."""

    def test_a_checkpoint(self):
        model = nn.Linear(64, 64)
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.randn(2, 64)).sum().backward()
        optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c.pt")
            torch.save(dict(model=model.state_dict(), optimizer=optimizer.state_dict(), order=[torch.tensor([5, 3, 2])], epoch=3, whole=model), path)

            def run(place):
                def job():
                    held = torch.load(path, map_location=place, weights_only=False)
                    twin = nn.Linear(64, 64).to(CARD)
                    twin.load_state_dict(held["model"])
                    worker = torch.optim.AdamW(twin.parameters())
                    worker.load_state_dict(held["optimizer"])
                    train(held["whole"].to(CARD), torch.randn(2, 64, device=CARD))
                    twin(torch.randn(2, 64, device=CARD)).sum().backward()
                    worker.step()
                    state = next(iter(worker.state.values()))
                    return (held["order"][0].tolist(), held["epoch"], state["step"].item(), held["model"]["weight"].device.type,
                            state["exp_avg"].device.type)
                return job

            for place, device in (("cpu", "cpu"), (None, "cpu"), (CARD, CARD), (torch.device(CARD, 0), CARD), ({"cpu": "cuda:0"}, CARD),
                                  (lambda storage, location: storage, "cpu"), (lambda storage, location: storage.cuda(0), CARD)):
                with self.subTest(str(place)):
                    self.assertEqual(recorded(run(place))[1], ([5, 3, 2], 3, 2.0, device, CARD))

    def test_safetensors(self):
        try:
            from safetensors.torch import load_file, save_file
        except ImportError:
            self.skipTest("no safetensors")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c.safetensors")
            save_file(dict(weight=torch.randn(64, 64), bias=torch.zeros(64), sizes=torch.tensor([3, 4])), path)

            def run():
                held = load_file(path)
                sizes = held.pop("sizes").tolist()
                model = nn.Linear(64, 64).to(CARD)
                model.load_state_dict(held)
                train(model, torch.randn(2, 64, device=CARD))
                return sizes, load_file(path, device=CARD)["sizes"].tolist()

            self.assertEqual(recorded(run)[1], ([3, 4], [3, 4]))


class OnTheCard(unittest.TestCase):
    def inside(self, function):
        recorder = capture.Recorder(steps=None)
        with recorder:
            result = function()
        self.assertEqual([w for w in recorder.warnings if "computed" in w], [])
        return result

    def test_what_follows_from_known_numbers(self):
        y = torch.randint(0, 5, (64, 128), generator=torch.Generator().manual_seed(1))

        def run(device):
            labels = y.to(device)
            mask = labels == 3
            hidden = torch.randn(64, 128, 16, device=device)
            lengths = torch.tensor([3, 1, 2], device=device)
            positions = torch.arange(10, device=device)
            positions[2:4] = 7
            rows = positions.view(2, 5)
            rows += 1
            steps = torch.zeros((), device=device)
            for _ in range(3):
                steps += 1
            where = torch.full((3, 3), 2.0, device=device)
            where.fill_diagonal_(0)
            return [mask.sum().item(), int(mask.sum()), labels[mask].shape, hidden[mask].shape, torch.nonzero(mask).tolist(),
                    torch.masked_select(hidden[..., 0], mask).shape, torch.unique(labels).tolist(), torch.bincount(labels.flatten()).tolist(),
                    positions.tolist(), torch.repeat_interleave(lengths).tolist(),
                    torch.repeat_interleave(hidden[:3], lengths, dim=0).shape, steps.item(), where.tolist(), torch.where(where > 0)[1].tolist(),
                    bool((labels >= 0).all()), labels.float().mean().cpu().item(), torch.cumsum(lengths, 0).tolist(),
                    [t.shape for t in hidden.split(lengths.tolist() + [58])], labels.max().item() + 1]

        self.assertEqual(self.inside(lambda: run(CARD)), run("cpu"))

    def test_large_batches_of_tokens(self):
        for shape in ((12, 1024), (64, 4096)):
            y = torch.randint(0, 9, shape)
            self.assertEqual(self.inside(lambda y=y: (y.to(CARD) == 3).sum().item()), (y == 3).sum().item())

    def test_drawn_on_the_card(self):
        drawn = self.inside(lambda: (sorted(torch.randperm(10, device=CARD).tolist()), torch.randint(3, 5, (99,), device=CARD).unique().tolist(),
                                     (torch.rand(1000, device=CARD) < 0.5).sum().item()))
        self.assertEqual(drawn[:2], (list(range(10)), [3, 4]))
        self.assertTrue(400 < drawn[2] < 600)

    def test_an_unknown_makes_unknown(self):
        def mixed(out):
            x = torch.zeros(4, 8, device=CARD)
            x += out
            y = torch.ones(8, device=CARD)
            y[2:4].copy_(out[0, :2])
            z = torch.zeros(4)
            z.copy_(out[0, :4])
            return [type(t) for t in (x.sum().item(), y.sum().item(), (y * 2)[0].item(), z[0].item(), z.mean().item())]

        self.assertEqual(with_model(mixed), [_values.MadeFloat] * 5)

    def test_nothing_of_it_is_written_down(self):
        def run(read):
            def job():
                model = nn.Linear(8, 8).to(CARD)
                x, y = torch.ones(4, 8).to(CARD), torch.arange(4).to(CARD)
                if read:
                    y.tolist()
                    y.max().item()
                train(model, x, lambda out: nn.functional.cross_entropy(out, y))
            return job

        events = [recorded(run(read))[0]["events"] for read in (False, True)]
        self.assertEqual(len(events[1]) - len(events[0]), 2)  # max and its result's death


class MadeUp(unittest.TestCase):
    """What a model gave has no numbers: they may be shown, not used."""

    def test_they_can_be_shown(self):
        def show(out):
            labels = torch.arange(4, device=CARD)
            correct = (out.argmax(1) == labels).sum().item()
            correct += int((out.argmax(1) == labels).sum())
            accuracy = correct / 4
            losses = torch.zeros(3)
            losses[1] = out.sum().item()
            array = out.detach().cpu().numpy()
            return [f"{accuracy:.2f} {out.mean().item():.3f}", "%.3f %d" % (accuracy, correct),
                    json.dumps({"a": accuracy, "b": correct, "c": out.argmax().item()}), round(accuracy, 2), math.exp(out.mean().item()),
                    max(correct, 3), sum([correct, correct]), str(array.mean()), np.mean([1.0, accuracy]),
                    float(losses.mean()), array.argmax(1).tolist(), out.argmax().item() == 1, out.argmax().item() > 0, f"{out.argmax().item():4d}",
                    sorted([out.argmax().item(), 3]), {out.argmax().item(): 1}, losses.tolist(), "%s" % out[0, 0].item(), float(out.sum()) + 1,
                    math.isfinite(out.sum().item())]

        shown = with_model(show)
        self.assertEqual(shown[0][-5:], "1.000")
        self.assertIs(shown[-1], True)

    def test_they_keep_their_mark(self):
        def marks(out):
            loss, best = out.sum().item(), out.argmax().item()
            array = out.detach().cpu().numpy()
            return [loss * 2 + 1, -loss, 1 - loss, loss / best, best // 2, best + 1, 3 * best, best % 2, abs(best), sum([loss, 2.0]), round(loss),
                    array[0, 0], array.argmax(1)[0], array.sum(), (array * 2).mean(), out.tolist()[0][0], out.argmax(1).tolist()[0],
                    next(iter(array[0])), torch.tensor([loss, 1.0]).sum().item(), torch.tensor(best).item(), torch.from_numpy(array).sum().item()]

        for value in with_model(marks):
            self.assertTrue(_values.is_made(value), (value, type(value)))

    def refused(self, use):
        """The script's own except does not make an answer of it."""

        def swallow(out):
            try:
                use(out)
            except Exception:
                pass

        with self.assertRaises(_values.MadeUp) as caught:
            with_model(swallow)
        fault = caught.exception
        self.assertIsInstance(fault, plimsoll.InputError)
        self.assertRegex(str(fault), r"^test_values.py, line [0-9]+.*: .*number that was not computed")
        return fault

    def test_they_are_no_sizes_and_no_indices(self):
        x = list(range(10))
        for number, use in enumerate((
                lambda out: torch.zeros(out.argmax().item(), device=CARD), lambda out: out[:out.argmax().item()], lambda out: x[out.argmax().item()],
                lambda out: [1 for _ in range(out.argmax().item())], lambda out: torch.zeros(int(out.argmax())),
                lambda out: out[:, :int(out.argmax())], lambda out: nn.functional.one_hot(out.argmax(1)),
                lambda out: out[out.argmax():], lambda out: out.split([out.argmax().item(), 4]), lambda out: torch.zeros(4)[:out.argmax()],
                lambda out: out.view(int(out.argmax()) // 4, -1), lambda out: np.zeros(out.argmax().item()), lambda out: x[:out.argmax().item() + 1],
                lambda out: x[out.argmax()], lambda out: torch.zeros(int(out.sum().item() * 3)), lambda out: torch.zeros(round(out.sum().item())),
                lambda out: x[out.argmax(1).tolist()[0]], lambda out: x[out.argmax(1).cpu().numpy()[0]],
                lambda out: np.zeros(out.cpu().numpy().argmax()),
                lambda out: torch.arange(8)[int(out.argmax())])):
            with self.subTest(number):
                self.refused(use)

    def test_after_the_steps_they_stand(self):
        """A script: before its steps are over it ends with 3, after them the rest is reported as not simulated."""
        text = ("import torch\nm = torch.nn.Linear(8, 8).cuda()\no = torch.optim.SGD(m.parameters(), lr=0.1)\nx = torch.randn(4, 8).cuda()\n"
                "def look():\n    with torch.no_grad():\n        return 'abcdefgh'[m(x).argmax().item()]\n%s"
                "for _ in range(2):\n    m(x).sum().backward()\n    o.step()\nlook()\n")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "train.py")
            for before, code in (("", 0), ("try:\n    look()\nexcept Exception:\n    pass\n", 3)):
                with open(path, "w") as out:
                    out.write(text % before)
                done = subprocess.run([sys.executable, "-m", "plimsoll", "--json", path], capture_output=True, text=True, cwd=folder)
                self.assertEqual(done.returncode, code, done.stderr)
                if code:
                    self.assertEqual(done.stdout, "")
                    self.assertIn("train.py, line 7: a number that was not computed", done.stderr)
                else:
                    warnings = json.loads(done.stdout)["warnings"]
                    self.assertTrue(any("train.py, line 7: what comes after the steps was simulated up to here" in w for w in warnings), warnings)

    def test_the_line_is_the_scripts(self):
        here = __import__("inspect").currentframe().f_lineno
        fault = self.refused(lambda out: torch.zeros(out.argmax().item()))
        self.assertEqual(fault.where, "test_values.py, line %d" % (here + 1))


class Steps(unittest.TestCase):
    """What a step is: closures, several optimizers, optimizers inside backward."""

    def job(self, closure, kind=torch.optim.AdamW):
        def run():
            model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024)).to(CARD)
            optimizer = kind(model.parameters())
            for _ in range(3):
                x = torch.randn(512, 1024).to(CARD)

                def once(x=x):
                    optimizer.zero_grad()
                    loss = model(x).sum()
                    loss.backward()
                    return loss

                if closure:
                    optimizer.step(once)
                else:
                    once()
                    optimizer.step()

        return recorded(run, 2)

    def test_a_closure_is_forward_and_backward(self):
        (with_it, _, recorder), (without, _, _) = self.job(True), self.job(False)
        self.assertEqual(recorder.optimizer_steps, 2)
        one, other = peak(with_it), peak(without)
        self.assertEqual((one.peak_bytes, one.peak_phase), (other.peak_bytes, other.peak_phase))
        self.assertLessEqual(abs(one.allocated_bytes - other.allocated_bytes), 512)  # the loss, which step() gives back
        for kind in ("weights", "gradients", "optimizer", "inputs"):
            self.assertEqual(one.breakdown[kind], other.breakdown[kind], kind)

    def test_lbfgs_keeps_its_history(self):
        trace, _, recorder = self.job(True, torch.optim.LBFGS)
        weights = 2 * (1024 * 1024 + 1024) * 4
        self.assertGreater(peak(trace).breakdown["optimizer"], 30 * weights)
        self.assertTrue(any("LBFGS keeps up to 100 pairs" in w for w in trace["warnings"]), trace["warnings"])

    def test_two_models_that_take_turns(self):
        def run(critics):
            def job():
                one, two = nn.Linear(64, 128).to(CARD), nn.Linear(128, 1).to(CARD)
                first, second = torch.optim.Adam(one.parameters()), torch.optim.Adam(two.parameters())
                for i in range(40):
                    z = torch.randn(32, 64).to(CARD)
                    second.zero_grad()
                    two(one(z).detach()).sum().backward()
                    second.step()
                    if i % critics == critics - 1:
                        first.zero_grad()
                        two(one(z)).sum().backward()
                        first.step()
                return job
            return job

        trace, _, recorder = recorded(run(1), 2)
        self.assertEqual(recorder.optimizer_steps, 2)
        self.assertEqual([m[2] for m in trace["marks"] if m[1] == 4], [0, 0, 1, 1])
        trace, _, recorder = recorded(run(5), 2)  # the second is waited for
        self.assertGreater(recorder.optimizer_steps, 5)
        self.assertLess(recorder.optimizer_steps, 40)

    def test_an_optimizer_per_parameter_inside_backward(self):
        def run():
            model = nn.Sequential(*(nn.Linear(1024, 1024, bias=False) for _ in range(6))).to(CARD)
            workers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

            def hook(p):
                workers[p].step()
                workers[p].zero_grad()

            for p in model.parameters():
                p.register_post_accumulate_grad_hook(hook)
            for _ in range(9):
                model(torch.randn(8, 1024).to(CARD)).sum().backward()

        trace, _, recorder = recorded(run, 2)
        self.assertEqual(recorder.optimizer_steps, 2)
        self.assertEqual(sum(1 for m in trace["marks"] if m[1] == 4), 12)
        self.assertLessEqual(peak(trace).breakdown["gradients"], 2 * 4 << 20)  # never all six

    def test_accumulation_and_copies(self):
        """Averaged weights, a scaler, gradients over two batches, both kinds of checkpointing: the steps are two."""
        import copy

        from torch.utils.checkpoint import checkpoint

        def run():
            model = nn.ModuleList(nn.Linear(256, 256) for _ in range(4)).to(CARD)
            average = copy.deepcopy(model)
            optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler(CARD)
            for _ in range(5):
                for _ in range(2):
                    x = torch.randn(64, 256, device=CARD, requires_grad=True)
                    with torch.autocast(CARD, torch.float16):
                        for i, layer in enumerate(model):
                            x = checkpoint(layer, x, use_reentrant=bool(i % 2))
                        scaler.scale(x.float().sum()).backward()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                with torch.no_grad():
                    for a, p in zip(average.parameters(), model.parameters()):
                        a.mul_(0.9).add_(p, alpha=0.1)

        trace, _, recorder = recorded(run, 2)
        weights = 4 * (256 * 256 * 4 + 1024)
        self.assertEqual(recorder.optimizer_steps, 2)
        self.assertGreaterEqual(peak(trace).breakdown["weights"], 2 * weights)
        self.assertFalse(any("computed" in w for w in trace["warnings"]), trace["warnings"])


class Assumed(unittest.TestCase):
    def test_torch_compile_is_reported(self):
        def run(compiled):
            def job():
                model = nn.Sequential(nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 1024)).to(CARD)
                run = torch.compile(model) if compiled else model
                assert not compiled or run._orig_mod is not None

                def plain(out):
                    return out.square().mean()

                loss = torch.compile(fullgraph=True)(plain)  # only what is called counts
                train(run, torch.randn(4096, 1024).to(CARD), loss if compiled else plain)
            return job

        compiled, plain = recorded(run(True))[0], recorded(run(False))[0]
        self.assertEqual((compiled["assumed"], plain["assumed"]), (["compile"], []))
        self.assertTrue(any("torch.compile is not simulated" in w for w in compiled["warnings"]))
        one, other = peak(compiled), peak(plain)
        self.assertEqual(one.peak_bytes, other.peak_bytes)
        self.assertLess(one.low_bytes, 0.6 * one.peak_bytes)
        self.assertGreater(one.high_bytes, other.high_bytes)

    def test_a_size_that_a_model_decides(self):
        def run(known):
            def job():
                model = nn.Linear(1024, 1024).to(CARD)
                x = torch.randn(65536, 1024, device=CARD)
                mask = (torch.arange(65536, device=CARD) < 16) if known else (model(x)[:, 0] > 0)
                train(model, x, lambda out: out[mask].exp().sum())
            return job

        largest, exact = recorded(run(False))[0], recorded(run(True))[0]
        self.assertEqual((largest["assumed"], exact["assumed"]), (["sizes"], []))
        self.assertTrue(any("the largest it can have was taken" in w for w in largest["warnings"]))
        one, other = peak(largest), peak(exact)
        self.assertGreater(one.peak_bytes, other.peak_bytes)
        self.assertLess(one.low_bytes, other.peak_bytes)
        self.assertIn([16, 1024], [t[2] for t in exact["tensors"]])

    def test_an_empty_tensor_enters_a_model(self):
        def run():
            model = nn.Linear(8, 8).to(CARD)
            train(model, torch.randn(4, 8)[:0].to(CARD))

        with self.assertRaises(_values.MadeUp) as caught:
            recorded(run)
        self.assertRegex(str(caught.exception), r"test_values.py, line [0-9]+: an empty tensor of shape \(0, 8\) enters Linear")

    def test_empty_tensors_inside_are_no_matter(self):
        def run():
            model = nn.Linear(8, 8).to(CARD)
            model.register_buffer("none", torch.zeros(0, 4, device=CARD))

            def loss(out):
                boxes = torch.zeros(4, device=CARD) > 1
                return out[boxes].sum() + torch.cat([model.none.sum()[None], out.sum()[None]]).sum()

            train(model, torch.randn(4, 8).to(CARD), loss)

        self.assertEqual(recorded(run)[2].optimizer_steps, 2)


class Ctc(nn.Module):
    """Speech with labels: their lengths decide what the loss keeps."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(16, 32)

    def forward(self, x, labels):
        mask = labels >= 0
        out = self.body(x).log_softmax(-1).transpose(0, 1)
        lengths = torch.full((x.size(0),), x.size(1), device=x.device)
        return nn.functional.ctc_loss(out, labels.masked_select(mask), lengths, mask.sum(-1))


class Given(unittest.TestCase):
    """What the user gave keeps its numbers."""

    def shapes(self, model, inputs, **settings):
        trace = json.loads(capture.trace_step(model, inputs, **settings))
        return [t[2] for t in trace["tensors"]], trace

    def test_labels_of_speech(self):
        labels = torch.randint(1, 32, (4, 20))
        labels[0, 7:] = labels[1, 9:] = -100
        shapes, trace = self.shapes(Ctc(), dict(x=torch.randn(4, 50, 16), labels=labels))
        self.assertIn([7 + 9 + 20 + 20], shapes)
        self.assertIn([4, 50, 41], shapes)  # the longest has 20
        self.assertEqual((trace["job"]["loss"], trace["assumed"], trace["job"]["batch"]), ("own", [], 4))
        labels[2:, 11:] = -100
        self.assertIn([4, 50, 23], self.shapes(Ctc(), dict(x=torch.randn(4, 50, 16), labels=labels))[0])

    def test_a_speech_model_of_transformers(self):
        try:
            import transformers
        except ImportError:
            self.skipTest("no transformers")
        config = transformers.Wav2Vec2Config(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=32,
                                             conv_dim=(16, 16), conv_kernel=(10, 3), conv_stride=(40, 8), num_conv_pos_embedding_groups=4)
        labels = torch.randint(1, 32, (2, 20))
        labels[0, 10:] = -100
        report = plimsoll.estimate(transformers.Wav2Vec2ForCTC(config).train(), dict(input_values=torch.randn(2, 16000), labels=labels))
        self.assertEqual((report.via, report.batch), ("trace", 2))

    def test_another_batch_keeps_labels(self):
        from plimsoll import _inputs
        labels = torch.tensor([[1, 2, -100], [3, -100, -100]])
        resized = _inputs.resize(dict(x=torch.randn(2, 50, 16), labels=labels), 5, None)
        self.assertEqual(resized["labels"].tolist(), [[1, 2, -100], [3, -100, -100], [1, 2, -100], [3, -100, -100], [1, 2, -100]])
        self.assertEqual(resized["x"].shape, (5, 50, 16))
        report = plimsoll.estimate(Ctc(), dict(x=torch.randn(2, 50, 16), labels=labels), batch=5, via="trace")
        self.assertEqual(report.batch, 5)

    def test_samples_that_are_set(self):
        """As many as were set, wherever that is: detection's samples among its anchors."""

        class Pick(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Linear(16, 16)

            def forward(self, x):
                out = self.body(x)
                one, two = (torch.zeros(x.size(0), dtype=torch.uint8, device=x.device) for _ in range(2))
                one[out[:, 0].topk(100).indices] = 1
                two[out[:, 1].topk(50).indices] = 1
                return out[torch.where(one | two)[0]].exp().sum()

        shapes, trace = self.shapes(Pick(), torch.randn(5000, 16))
        self.assertIn([150, 16], shapes)
        self.assertEqual(trace["assumed"], ["sizes"])

    def test_buffers_keep_theirs(self):
        class Windows(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("sizes", torch.tensor([3, 5]))
                self.body = nn.Linear(8, 8)

            def forward(self, x):
                return torch.cat([t.exp() for t in self.body(x).split(self.sizes.tolist())]).sum()

        model = Windows()
        self.assertIn([3, 8], self.shapes(model, torch.randn(8, 8))[0])
        self.assertEqual(model.sizes.tolist(), [3, 5])

    def test_detection(self):
        try:
            from torchvision.models import detection
        except ImportError:
            self.skipTest("no torchvision")
        boxes = torch.tensor([[10.0, 10.0, 80.0, 90.0], [50.0, 40.0, 120.0, 150.0]])
        target = dict(boxes=boxes, labels=torch.tensor([1, 2]), masks=torch.ones(2, 160, 160, dtype=torch.uint8))
        images = [torch.rand(3, 160, 160) for _ in range(2)]
        for name, certain in (("fasterrcnn_mobilenet_v3_large_320_fpn", False), ("maskrcnn_resnet50_fpn", False), ("retinanet_resnet50_fpn", True)):
            with self.subTest(name):
                model = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=3, min_size=160, max_size=160).train()
                report = plimsoll.estimate(model, (images, [target, target]), optimizer="sgd", via="trace")
                self.assertEqual(report.batch, 2)
                self.assertEqual(not any("the largest it can have" in w for w in report.warnings), certain, report.warnings)
                self.assertLess(report.peak_bytes, 4 << 30)


if __name__ == "__main__":
    unittest.main()
