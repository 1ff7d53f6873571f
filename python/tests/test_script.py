"""python -m plimsoll: users' scripts, unchanged. Needs PyTorch, but for the first."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

import plimsoll
from common import ROOT

try:
    import torch
except ImportError:
    torch = None

TRAIN = '''
"""A script as people write them."""
import argparse, os, sys
import torch
from torch import nn
import neighbour

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--width", type=int, default=1024)
options = parser.parse_args()
assert __name__ == "__main__" and os.path.basename(sys.argv[0]) == "train.py", (__name__, sys.argv)
print("training", neighbour.NAME)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(256, options.width), nn.ReLU(), nn.Linear(options.width, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.randn(options.batch * 4, 256), torch.randint(0, 10, (options.batch * 4,)))
for step, (x, y) in enumerate(torch.utils.data.DataLoader(data, batch_size=options.batch)):
    x, y = x.to(device), y.to(device)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step)
open("finished", "w").close()
'''


class Scripts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.write("train.py", TRAIN)
        self.write("neighbour.py", "NAME = 'beside it'\n")

    def write(self, name, text):
        with open(os.path.join(self.folder.name, name), "w") as out:
            out.write(text)

    def run_it(self, *args, code=0):
        if torch is None:
            self.skipTest("this Python has no PyTorch")
        done = subprocess.run([sys.executable, "-m", "plimsoll", *args], capture_output=True, text=True, cwd=self.folder.name)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_without_torch(self):
        if torch is not None:
            self.skipTest("this Python has PyTorch")
        done = subprocess.run([sys.executable, "-m", "plimsoll", "train.py"], capture_output=True, text=True, cwd=self.folder.name)
        self.assertEqual(done.returncode, 4)
        self.assertIn("PyTorch", done.stderr)

    def test_usage(self):
        for args in ((), ("--no-such", "train.py"), ("--timeline", "t.png", "train.py"), ("--steps", "0", "train.py"), ("--risk", "70", "train.py")):
            done = subprocess.run([sys.executable, "-m", "plimsoll", *args], capture_output=True, text=True, cwd=self.folder.name)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        done = subprocess.run([sys.executable, "-m", "plimsoll", "nowhere.py"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 3)
        self.assertIn("nowhere.py", done.stderr)

    def test_a_script_is_estimated(self):
        done = self.run_it("--gpu", "t4", "--steps", "2", "--timeline", "t.svg", "train.py", "--batch", "64")
        self.assertIn("training beside it", done.stderr)
        self.assertIn("step 1", done.stderr)
        self.assertNotIn("step 2", done.stderr)  # the second optimizer step is the last
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "finished")))
        self.assertRegex(done.stdout, r"peak [0-9.]+ [MG]iB, between")
        self.assertIn("fits NVIDIA T4", done.stdout)
        self.assertEqual(ElementTree.parse(os.path.join(self.folder.name, "t.svg")).getroot().tag, "{http://www.w3.org/2000/svg}svg")

    def test_its_arguments_are_its_own(self):
        small = json.loads(self.run_it("--json", "train.py", "--width", "1024").stdout)
        large = json.loads(self.run_it("--json", "train.py", "--width", "65536").stdout)
        self.assertEqual(small["via"], "trace")
        # Weights, gradients and two moments of 267 values a unit more.
        grown = large["memory"]["allocated_bytes"] - small["memory"]["allocated_bytes"]
        self.assertGreater(grown, 4 * 4 * 267 * (65536 - 1024))

    def test_it_agrees_with_the_module(self):
        told = json.loads(self.run_it("--json", "train.py", "--width", "4096", "--batch", "256").stdout)
        model = torch.nn.Sequential(torch.nn.Linear(256, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 10))
        wanted = plimsoll.estimate(model, torch.zeros(256, 256), loss="ce")
        self.assertLess(abs(told["memory"]["peak_bytes"] - wanted.peak_bytes), 0.03 * wanted.peak_bytes)

    def test_the_example(self):
        done = self.run_it("--json", str(ROOT / "examples" / "train.py"), "--layers", "2", "--width", "128", "--length", "64")
        told = json.loads(done.stdout)
        self.assertEqual(told["model"]["name"], "train")
        self.assertGreater(told["memory"]["breakdown"]["weights"], 4 * 2 * 50257 * 128)  # embedding and head

    def test_inference_mode_and_weights_that_threads_load(self):
        """Composite operators of inference mode, and flags that belong to one thread."""
        self.write("infer.py", """
import concurrent.futures, torch
def read(i):
    for _ in range(40):
        assert float(torch.frombuffer(bytearray(64), dtype=torch.float32).sum()) == 0
    return torch.full((4,), float(i))
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    futures = [pool.submit(read, i) for i in range(16)]
    models = [torch.nn.Linear(64, 64) for _ in range(200)]
    assert [f.result()[0].item() for f in futures] == list(range(16))
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2):
    model(torch.rand(8, 64).cuda()).sum().backward()
    optimizer.step()
with torch.inference_mode():
    assert (torch.zeros(3, dtype=torch.int64).to("cuda", non_blocking=True) + 1).sum().item() == 3
    print(model(torch.rand(16, 64).to("cuda")).half().dtype)
""")
        report = json.loads(self.run_it("--json", "--until-exit", "infer.py").stdout)
        self.assertFalse([w for w in report["warnings"] if "raised" in w], report["warnings"])

    def test_a_timeline_that_cannot_be_written(self):
        done = self.run_it("--timeline", "nowhere/t.svg", "train.py", code=3)
        self.assertIn("nowhere/t.svg: could not be written", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_without_a_step(self):
        self.write("idle.py", "import torch\nprint('done')\n")
        done = self.run_it("idle.py", code=3)
        self.assertIn("without an optimizer step", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_one_that_raises(self):
        self.write("bad.py", "import torch\ndef f():\n    raise ValueError('no data')\nf()\n")
        done = self.run_it("bad.py", code=3)
        self.assertIn("plimsoll: bad.py, line 3: the script raised ValueError (no data)", done.stderr)
        self.assertIn("Traceback", done.stderr)

    def test_one_that_exits(self):
        self.write("out.py", "import sys\nsys.exit('no data')\n")
        done = self.run_it("out.py", code=3)
        self.assertIn("exited with no data without an optimizer step", done.stderr)
