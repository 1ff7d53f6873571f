"""python -m plimsoll on scripts whose later steps differ from the first: phases, growing batches, leaks, evaluations, a full
card, and on steps without an optimizer. Needs PyTorch."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    raise unittest.SkipTest("this Python has no PyTorch") from None

from plimsoll._onward import STEPS_AHEAD, Onward
from plimsoll._record import Recording

MODEL = '''import sys, torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 8)).cuda()
'''
HEAD = MODEL + '''optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(batch=512):
    optimizer.zero_grad()
    out = model(torch.randn(batch, 256).cuda())
    out.square().mean().backward()
    optimizer.step()
    return out
'''
ROW = 4 * (256 + 1024 * 4 + 8)  # bytes that forward makes per sample, about


class Onwards(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_it(self, script, *options, code=0, head=HEAD):
        with open(os.path.join(self.folder, "train.py"), "w") as out:
            out.write(head + script)
        done = subprocess.run([sys.executable, "-m", "plimsoll", "--json", *options, "train.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, cwd=self.folder, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        if code:
            return done.stderr
        told = json.loads(done.stdout)
        self.said = "\n".join(told["warnings"])
        return told

    def allocated(self, script, *options):
        return self.run_it(script, *options)["memory"]["allocated_bytes"]

    def same(self, script, head=HEAD):
        """What is said by default is what a run until the end shows, and more than two steps do."""
        told, whole, two = (self.run_it(script, *options, head=head)["memory"]["allocated_bytes"]
                            for options in ((), ("--until-exit",), ("--steps", "2")))
        self.assertEqual(told, whole)
        self.assertGreater(told, two + (1 << 20))

    # ---- later steps ----

    def test_phases(self):
        self.same("for step in range(20): train(512 if step < 15 else 4096)\n")
        self.same('''
model[:4].requires_grad_(False)
for epoch in range(4):
    if epoch == 3:
        model.requires_grad_(True)
        optimizer = torch.optim.Adam(model.parameters())
    for i in range(5): train()
''')
        self.same("for width in (64, 256, 2048):\n    model = nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width)).cuda()\n"
                  "    optimizer = torch.optim.Adam(model.parameters())\n    for i in range(3):\n        optimizer.zero_grad()\n"
                  "        model(torch.randn(512, 256).cuda()).mean().backward()\n        optimizer.step()\n", MODEL)

    def test_an_evaluation_with_gradients(self):
        self.same("for i in range(6): train()\nprint(model(torch.randn(8192, 256).cuda()).argmax(1).sum())\n")

    def test_the_last_batch_is_seen_and_is_no_difference(self):
        told = self.run_it('''
for (x,) in DataLoader(TensorDataset(torch.randn(100, 256)), batch_size=16):
    print("batch of", len(x))
    optimizer.zero_grad(); model(x.cuda()).square().mean().backward(); optimizer.step()
''')
        self.assertEqual((told["seen"]["optimizer_steps"], self.said), (5, ""))
        self.assertIn("later steps", "".join(told["seen"]["not_seen"]))

    def test_the_largest_batch_is_looked_for(self):
        script = '''
import random
random.seed(1)
lengths = [8] * 400
lengths[317] = 4096
def collate(samples): return torch.cat(samples)
for x in DataLoader([torch.randn(n + (i % 3 == 0), 256) for i, n in enumerate(lengths)], batch_size=4, collate_fn=collate):
    optimizer.zero_grad(); model(x.cuda()).square().mean().backward(); optimizer.step()
'''
        told = self.run_it(script)
        self.assertEqual(told["memory"]["allocated_bytes"], self.allocated(script, "--until-exit"))
        self.assertLess(told["seen"]["optimizer_steps"], 30)
        self.assertIn("steps are not alike", self.run_it(script) and self.said)

    def test_steps_that_differ_widen_the_interval(self):
        told = self.run_it("import random\nrandom.seed(0)\nwhile True: train(random.randint(100, 4000))\n")
        self.assertIn("steps are not alike: forward makes from ", self.said)
        memory = told["memory"]
        alike = self.run_it("while True: train(4000)\n")["memory"]
        self.assertGreater(memory["high_bytes"] / memory["peak_bytes"], alike["high_bytes"] / alike["peak_bytes"] + 0.002)
        whole = self.run_it("for batch in (64, 512, 128, 4096): train(batch)\n")
        self.assertEqual((whole["seen"]["ended"], whole["seen"]["not_seen"], self.said), ("exit", [], ""))  # nothing is left to differ

    # ---- what is kept ----

    def test_what_grows_from_step_to_step(self):
        told = self.run_it("kept = []\nwhile True: kept.append(train(4096) @ torch.ones(8, 32, device='cuda'))\n")
        self.assertRegex(self.said, r"each step keeps 51[23].. KiB more on the card than the one before \(aten.mm.default, for one\)")
        memory = told["memory"]
        self.assertGreater(memory["high_bytes"] - memory["peak_bytes"], STEPS_AHEAD << 19)
        told = self.run_it("kept = []\nfor (x,) in DataLoader(TensorDataset(torch.zeros(30, 1)), batch_size=1):\n"
                           "    kept.append(train(4096) @ torch.ones(8, 32, device='cuda'))\n")
        self.assertRegex(self.said, r"for 2\d steps more")
        self.run_it("kept = []\nwhile True:\n    kept.append(train(4096).detach().cpu())\n")
        self.assertNotIn("each step keeps", self.said)
        self.run_it("import collections\nkept = collections.deque(maxlen=5)\n"
                    "while True: kept.append(train(4096) @ torch.ones(8, 32, device='cuda'))\n")
        self.assertNotIn("each step keeps", self.said)

        self.run_it("kept = []\nstep = 0\nwhile True:\n    step += 1\n    out = train(4096)\n"
                    "    if step % 5 == 0: kept.append(out @ torch.ones(8, 320, device='cuda'))\n")
        self.assertRegex(self.said, r"each step keeps \d\S* [MK]iB more on the card")

    def test_what_an_evaluation_gathers(self):
        told = self.run_it('''
train()
train()
outs = []
with torch.no_grad():
    for (x,) in DataLoader(TensorDataset(torch.randn(4096, 256)), batch_size=64):
        outs.append(model(x.cuda()) @ torch.ones(8, 4096, device="cuda"))
''')
        self.assertIn("an evaluation keeps 1.0 MiB of each batch on the card: the upper end is for the 62 batches more that its DataLoader has",
                      self.said)
        memory = told["memory"]
        self.assertGreater(memory["high_bytes"] - memory["peak_bytes"], 124 << 20)

    def test_growth_has_to_go_on(self):
        onward = Onward(Recording())
        onward.recording.card.most = 1000
        onward.kept, onward.lasting = [0, 10, 20, 30], [0, 0, 0, 0]
        self.assertEqual(onward.growth, 0)  # not for long enough
        onward.kept.append(45)
        self.assertEqual((onward.growth, onward.beyond()), (10, 10 * STEPS_AHEAD))
        onward.kept.append(45)
        self.assertEqual((onward.growth, onward.beyond(), onward.sentences()), (0, 0, []))
        for kept, growth in (([0, *range(0, 300, 3)], 3), ([0, *[100 * (i // 10) for i in range(100)]], 10),
                             ([0, *[min(i, 50) for i in range(100)]], 0),
                             ([0, *[i % 7 for i in range(100)]], 0)):
            onward.kept = kept
            self.assertLessEqual(abs(onward.growth - growth), growth // 5)

    def test_passes_that_only_grow(self):
        onward = Onward(Recording())
        for passes, slope in ((range(100, 200, 10), 10), ([100, 100, 110, 110, 120, 130], 6), ([100] * 10, 0), ([100, 200, 300, 250, 400, 500], 0),
                              ([*range(100, 200, 10), *[200] * 20], 0)):
            onward.passes = [0, *passes]
            self.assertEqual(onward.slope, slope, passes)

    def test_a_loader_that_is_read_by_next(self):
        told = self.run_it('''
it = iter(DataLoader(TensorDataset(torch.randn(800, 256)), batch_size=16))
for i in range(40):
    (x,) = next(it)
    optimizer.zero_grad(); model(x.cuda()).square().mean().backward(); optimizer.step()
model(torch.randn(8192, 256).cuda())
''')
        self.assertEqual((told["seen"]["optimizer_steps"], told["seen"]["ended"], told["seen"]["not_seen"]), (40, "exit", []))
        self.assertGreater(told["memory"]["allocated_bytes"], 8192 * ROW)

    # ---- the card ----

    def test_what_is_cached_goes_back(self):
        script = "for size in (1 << 29, 1 << 30):\n    x = torch.empty(size, dtype=torch.uint8, device='cuda'); del x\n    %s\ntrain()\n"
        kept, freed = (self.run_it(script % line)["memory"]["reserved_bytes"] for line in ("pass", "torch.cuda.empty_cache()"))
        self.assertGreater(kept - freed, 1 << 28)

    def test_a_batch_finder_is_told_of_a_full_card(self):
        script = '''
batch = 8192
while True:
    try:
        train(batch)
    except torch.cuda.OutOfMemoryError:
        print("too large:", batch)
        break
    batch *= 2
    torch.cuda.empty_cache()
for i in range(3): train(batch // 4)
'''
        told = self.run_it(script, "--gpu", "t4")
        self.assertIn("train.py, line ", self.said)
        self.assertIn("it was told that it is out of memory, which it looks for", self.said)
        self.assertGreater(told["memory"]["peak_bytes"], 7 << 30)
        self.assertLess(told["memory"]["peak_bytes"], 17 << 30)
        script = script.replace("except torch.cuda.OutOfMemoryError:", "except RuntimeError as e:\n        assert 'out of memory' in str(e)")
        self.assertIn("which it looks for", self.run_it(script, "--gpu", "t4") and self.said)
        for ends in ("%s", "try:\n    %s\nexcept RuntimeError as e:\n    print('cuda memory?', e)\n    raise\n",
                     "try:\n    %s\nexcept Exception:\n    sys.exit(1)\n"):  # looks for nothing, or gives up: what it needs is answered
            told = self.run_it(ends % "for i in range(3): train(1 << 20)", "--gpu", "t4")
            self.assertEqual(told["verdict"], "does not fit")
            self.assertGreater(told["memory"]["peak_bytes"], ROW << 20)

    def test_how_much_is_taken(self):
        self.run_it('''
GIB = 1 << 30
x = torch.empty(GIB, dtype=torch.uint8, device="cuda")
before = torch.cuda.memory_allocated()
assert GIB <= before < GIB + (32 << 20), before
free, total = torch.cuda.mem_get_info()
assert total - 3 * GIB < free < total - GIB, (free, total)
stats = torch.cuda.memory_stats()
assert stats["allocated_bytes.all.peak"] >= stats["allocated_bytes.all.current"] == before
y = x.clone(); del y
assert torch.cuda.memory_allocated() == before and torch.cuda.max_memory_allocated() == before + GIB
torch.cuda.reset_peak_memory_stats()
assert torch.cuda.max_memory_allocated() == before <= torch.cuda.memory_reserved()
train()
''')

    def test_two_cards_by_hand(self):
        told = self.run_it("x = torch.empty(1 << 28, device='cuda:1')\nfor i in range(3): train()\n")
        self.assertIn("tensors are on cuda:1 and on cuda:0", self.said)
        self.assertLess(told["memory"]["low_bytes"], told["memory"]["peak_bytes"] - (1 << 29))

    # ---- steps without an optimizer ----

    def test_updates_by_hand(self):
        by_hand = '''
for i in range(9):
    model.zero_grad()
    model(torch.randn(4096, 256).cuda()).square().mean().backward()
    %s
'''
        plain = self.allocated("for i in range(9): train(4096)\n", "--steps", "2")
        for update in ("with torch.no_grad():\n        for p in model.parameters(): p -= 0.1 * p.grad",
                       "for p in model.parameters(): p.data.add_(p.grad, alpha=-0.1)",
                       "torch._foreach_add_([p.data for p in model.parameters()], [p.grad for p in model.parameters()], alpha=-0.1)"):
            with self.subTest(update):
                told = self.run_it(by_hand % update, "--steps", "2", head=MODEL)
                self.assertEqual(told["seen"]["optimizer_steps"], 2)
                self.assertLess(abs(told["memory"]["allocated_bytes"] - plain), 5 << 20)
                self.assertEqual(told["model"]["parameters"], 1320968)
        told = self.run_it('''
w = torch.randn(256, 4096, device="cuda", requires_grad=True)
for i in range(5):
    (torch.randn(512, 256).cuda() @ w).square().mean().backward()
    with torch.no_grad(): w -= 0.1 * w.grad
    w.grad = None
''', head=MODEL)
        self.assertEqual((told["seen"]["optimizer_steps"], told["seen"]["ended"]), (5, "exit"))
        told = self.run_it(by_hand % "with torch.no_grad():\n        for p in model.parameters(): p -= 0.1 * p.grad")  # an optimizer that is not used
        self.assertIn(told["seen"]["optimizer_steps"], (7, 8))
        told = self.run_it('''
other = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(4):  # many backward passes before the first step, which is the optimizer's
    x = torch.randn(64, 256, device="cuda", requires_grad=True)
    for _ in range(3): torch.autograd.grad(model(x).sum(), x)
    train()
    if i % 2 == 0: other.step()
''')
        self.assertEqual((told["seen"]["optimizer_steps"], told["seen"]["ended"]), (4, "exit"))
        told = self.run_it("for i in range(3): model(torch.randn(4096, 256).cuda()).mean().backward()\n")
        self.assertIn("nothing stepped in 3 backward passes", self.said)
        self.assertEqual(told["seen"]["optimizer_steps"], 1)

    # ---- what fake tensors lack ----

    def test_packed_sequences(self):
        script = '''
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
net = nn.%s(64, 512, 2, batch_first=True, bidirectional=True).cuda()
lengths = torch.tensor([120, 90, 40, 7])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(3):
    packed = pack_padded_sequence(torch.randn(4, 120, 64).cuda(), lengths, batch_first=True)
    assert packed.data.shape == (257, 64) and packed.batch_sizes.tolist() == [(lengths > t).sum().item() for t in range(120)]
    out, sizes = pad_packed_sequence(net(packed)[0], batch_first=True)
    assert out.shape == (4, 120, 1024) and sizes.tolist() == lengths.tolist()
    optimizer.zero_grad(); out.mean().backward(); optimizer.step()
'''
        for kind in ("LSTM", "GRU"):
            told = self.run_it(script % kind)
            self.assertEqual((told["model"]["unknown_operators"], told["seen"]["optimizer_steps"], self.said), ([], 3, ""))

    def test_what_is_compiled_otherwise(self):
        plain = self.allocated("for i in range(3): train()\n")
        for script in ("model = torch.jit.trace(model, torch.randn(4, 256).cuda())\nfor i in range(3): train()\nmodel.save('m.pt')\n",
                       "@torch.jit.script\ndef f(x: torch.Tensor): return torch.tensor(1.0) * x.sum()\nf(torch.ones(2))\n"
                       "for i in range(3): train()\n",
                       "from copy import deepcopy\nimport threading\nt = threading.Thread(target=print)\nt.start(); t.join()\n"
                       "train()\nbest = deepcopy(model.state_dict())\ndel best\nfor i in range(2): train()\n"):
            with self.subTest(script):
                self.assertLess(abs(self.allocated(script) - plain), 8 << 20)
        told = self.run_it("model = torch.cuda.make_graphed_callables(model, (torch.randn(512, 256).cuda(),))\nfor i in range(3): train()\n")
        self.assertIn("CUDA graphs are not simulated", self.said)
        self.assertGreater(told["memory"]["high_bytes"], 1.1 * told["memory"]["peak_bytes"])
        self.run_it("x = torch.randn(32, 256, device='cuda')\nparams = dict(model.named_parameters())\n"
                    "def loss(p, one): return torch.func.functional_call(model, p, (one,)).sum()\n"
                    "torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(params, x)\ntrain()\n")
        told = self.run_it("from torch.nn.attention.flex_attention import create_block_mask, flex_attention\n"
                           "mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 4096, 4096, device='cuda')\n"
                           "q = torch.randn(2, 8, 4096, 64, device='cuda', requires_grad=True)\n"
                           "optimizer = torch.optim.SGD([q], lr=0.1)\nfor i in range(3):\n    optimizer.zero_grad()\n"
                           "    torch.compile(flex_attention)(q, q, q, block_mask=mask).mean().backward()\n    optimizer.step()\n")
        self.assertIn("flex_attention is taken for compiled", self.said)
        self.assertLess(told["memory"]["allocated_bytes"], 400 << 20)  # no scores, which would be 1 GiB
        self.run_it("layer = nn.TransformerEncoderLayer(64, 4, batch_first=True).cuda().eval()\n"
                    "with torch.no_grad(): layer(torch.randn(2, 5, 64).cuda())\ntrain()\n")

    def test_an_operator_without_a_fake_kernel_is_named(self):
        self.run_it('''
e = nn.TransformerEncoderLayer(64, 4, batch_first=True).cuda().eval()
a, weights = e.self_attn, [e.norm1.weight, e.norm1.bias, e.norm2.weight, e.norm2.bias, e.linear1.weight, e.linear1.bias, e.linear2.weight]
with torch.no_grad():
    y = torch._transformer_encoder_layer_fwd(torch.randn(2, 5, 64).cuda(), 64, 4, a.in_proj_weight, a.in_proj_bias, a.out_proj.weight,
                                             a.out_proj.bias, False, False, 1e-5, *weights, e.linear2.bias)
assert y.shape == (2, 5, 64) and y.is_cuda
train()
''')
        self.assertIn("_transformer_encoder_layer_fwd.default: PyTorch cannot tell what it gives without running it", self.said)

    def test_sparse_tensors_are_refused_for_what_they_are(self):
        for script in ("a = torch.eye(4).to_sparse().to('cuda')\n", "e = nn.Embedding(100, 8, sparse=True).cuda()\n"
                       "o = torch.optim.SparseAdam(e.parameters())\ne(torch.tensor([1, 2]).cuda()).mean().backward()\n"):
            self.assertRegex(self.run_it(script + "train()\n", code=3), r"train.py, line \d+: sparse tensors on the card")


if __name__ == "__main__":
    unittest.main()
