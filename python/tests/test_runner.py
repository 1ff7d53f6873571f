"""python -m plimsoll on scripts that end in all ways, print, fork and evaluate: what is told of each. Needs PyTorch."""
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    raise unittest.SkipTest("this Python has no PyTorch") from None

from plimsoll import _seen

HEAD = '''import os, sys, time, torch
from torch import nn
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
def train(batch=16):
    optimizer.zero_grad()
    model(torch.randn(batch, 64).cuda()).square().mean().backward()
    optimizer.step()
'''
LINES = HEAD.count("\n")  # before the script's own


class Runner(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as out:
            out.write(text)

    def run_it(self, script, *options, code=0, args=("train.py",), stdin=subprocess.DEVNULL):
        self.write("train.py", HEAD + script)
        done = subprocess.run([sys.executable, "-m", "plimsoll", "--json", *options, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, cwd=self.folder, stdin=stdin)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.errors = done.stderr
        return json.loads(done.stdout) if code == 0 else done.stderr

    # ---- ends ----

    def test_ends_before_a_step(self):
        for script, wanted in (("os._exit(0)", "the script called os._exit(0) without an optimizer step"),
                               ("os.abort()", "the script's process was ended by SIGABRT"),
                               ("import ctypes; ctypes.string_at(0)", "the script's process was ended by SIGSEGV"),
                               ("x = input('name? ')", "the script raised EOFError (EOF when reading a line) before its first optimizer step"),
                               ("os.system('exit 0')", "and started exit 0: give that script to plimsoll")):
            with self.subTest(script):
                text = self.run_it(script + "\n", code=3)
                self.assertIn(wanted, text)
                self.assertIn("plimsoll: train.py", text)
                if "os.system" not in script:
                    self.assertIn("train.py, line %d: " % (LINES + 1), text)

    def test_ends_after_a_step(self):
        for script, ended, wanted in (("os._exit(7)", "exit", "called os._exit(7) after 1 optimizer step"),
                                      ("sys.exit('bye')", "exit", "exited with bye after 1 optimizer step"),
                                      ("raise ValueError('no data')", "exception", "raised ValueError (no data) after 1 optimizer step")):
            with self.subTest(script):
                told = self.run_it("train()\n%s\n" % script)
                self.assertIn("train.py, line %d: the script %s" % (LINES + 2, wanted), told["warnings"])
                self.assertEqual((told["seen"]["optimizer_steps"], told["seen"]["ended"]), (1, ended))

    def test_timeout(self):
        started = "open('/dev/stderr', 'w').write('at it\\n')\n"
        text = self.run_it(started + "while True:\n    time.sleep(0.01)\n", "--timeout", "15s", code=5)
        self.assertRegex(text, r"train.py, line (%d|%d): no optimizer step in 15.0 s" % (LINES + 2, LINES + 3))
        told = self.run_it("train()\nwhile True:\n    pass\n", "--timeout", "15s")
        self.assertEqual((told["seen"]["optimizer_steps"], told["seen"]["ended"]), (1, "timeout"))
        self.assertIn("was not done after 15.0 s", "\n".join(told["warnings"]))
        self.assertIn("--timeout: a time such as 90s, 5m or 1h, not soon", self.run_it("", "--timeout", "soon", code=2))

    def test_a_signal(self):
        self.write("train.py", HEAD + "print('at it', flush=True)\nos.system('sleep 600 & echo $!')\ntime.sleep(600)\n")
        run = subprocess.Popen([sys.executable, "-m", "plimsoll", "train.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               cwd=self.folder)
        lines = []
        while not re.search(r"at it\n\d+\n", "".join(lines)):
            lines.append(run.stderr.readline())
            self.assertTrue(lines[-1], lines)
        started = int(lines[-1])
        time.sleep(0.3)
        run.send_signal(signal.SIGTERM)
        out, err = run.communicate()
        self.assertEqual((run.returncode, out), (128 + signal.SIGTERM, ""), err)
        self.assertIn("train.py, line %d: ended by SIGTERM" % (LINES + 3), err)
        self.assertFalse(os.path.exists("/proc/%d" % started), "what the script started is left")

    # ---- output ----

    def test_nothing_mixes_with_the_answer(self):
        told = self.run_it('''
import ctypes, subprocess
subprocess.run("echo of a child", shell=True)
ctypes.CDLL(None).puts(b"of C")
ctypes.CDLL(None).fflush(None)
os.write(1, b"of descriptor 1\\n")
print("of Python")
sys.__stdout__.write("of the first stdout\\n")
if os.fork() == 0:
    print("of a fork", flush=True)
    os._exit(0)
os.wait()
os.write(2, b"[W1116 18:20:41.123 file.cpp:1] Warning: of PyTorch's log\\n")
import warnings
warnings.warn("of the script")
train()
''')
        for text in ("of a child", "of C", "of descriptor 1", "of Python", "of the first stdout", "of a fork", "of the script"):
            self.assertIn(text, self.errors)
        self.assertNotIn("PyTorch's log", self.errors)
        self.assertEqual(self.errors.count("plimsoll: runs train.py for a few optimizer steps without a GPU"), 1)
        self.assertEqual(told["seen"]["ended"], "exit")
        self.assertIn("PyTorch's log", self.run_it("os.write(2, b\"[W1116 18:20:41.123 file.cpp:1] of PyTorch's log\\n\")\n", code=3))

    def test_stdin_is_the_scripts(self):
        read, write = os.pipe()
        os.write(write, b"32\n")
        os.close(write)
        told = self.run_it("assert input() == '32'\ntrain()\n", stdin=read)
        os.close(read)
        self.assertEqual(told["seen"]["ended"], "exit")

    def test_a_line_says_how_far_it_is(self):
        self.write("train.py", HEAD + "print('hello')\ntrain()\ntime.sleep(0.5)\ntrain()\n")
        master, slave = pty.openpty()
        run = subprocess.Popen([sys.executable, "-m", "plimsoll", "train.py"], stdout=subprocess.DEVNULL, stderr=slave, cwd=self.folder)
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:
                break
            if not part:
                break
            shown += part
        self.assertEqual(run.wait(), 0, shown)
        os.close(master)
        for wanted in (rb"\r\x1b\[Ktrain.py: starting PyTorch, \d+ s", rb"\r\x1b\[Ktrain.py: \w+ of step \d, \d+ s", rb"\r\x1b\[Khello\r\n"):
            self.assertRegex(shown, wanted)
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown[-100:])

    # ---- threads and processes ----

    def test_threads_and_processes_are_recorded(self):
        plain = self.run_it("for i in range(5): train(4096)\n")
        for script in ("import threading\nt = threading.Thread(target=lambda: [train(4096) for i in range(5)])\nt.start()\n",
                       "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(1) as pool:\n"
                       "    pool.submit(lambda: [train(4096) for i in range(5)]).result()\n",
                       "if os.fork() == 0:\n    for i in range(5): train(4096)\nos.wait()\n",
                       "import multiprocessing\ndef go(): [train(4096) for i in range(5)]\n"
                       "p = multiprocessing.get_context('spawn').Process(target=go)\np.start()\np.join()\n"):
            with self.subTest(script):
                told = self.run_it(script)
                self.assertEqual(told["memory"]["peak_bytes"], plain["memory"]["peak_bytes"])
                self.assertEqual(told["seen"]["optimizer_steps"], 5)

    # ---- what was seen ----

    def test_an_evaluation_after_the_loop_counts(self):
        script = '''
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(512, 64)), batch_size=16)
valid = torch.utils.data.DataLoader([torch.zeros(32768, 64)] * 4, batch_size=None)
for epoch in range(3):
    for (x,) in data:
        optimizer.zero_grad()
        model(x.cuda()).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        for x in valid:
            model(x.cuda())
            print("evaluated")
    print("epoch", epoch)
'''
        told = self.run_it(script, "--steps", "2")
        self.assertEqual(self.errors.count("evaluated"), 2)
        self.assertIn("epoch 0", self.errors)
        self.assertNotIn("epoch 1", self.errors)
        self.assertRegex(told["seen"]["evaluated"], r"train.py, line \d+")
        self.assertIn("more than 2 batches of an evaluation", told["seen"]["not_seen"])
        self.assertGreater(told["memory"]["allocated_bytes"], 2 * 32768 * 64 * 4)
        alone = self.run_it("for i in range(9): train()\n")
        self.assertLess(alone["memory"]["allocated_bytes"], told["memory"]["allocated_bytes"])
        further = self.run_it(script)
        self.assertEqual((self.errors.count("evaluated"), further["seen"]["ended"]), (6, "exit"))
        self.assertEqual(further["memory"]["allocated_bytes"], told["memory"]["allocated_bytes"])
        self.assertEqual(alone["compute"]["launches"], told["compute"]["launches"])  # an evaluation is no part of a step

    def test_an_evaluation_that_was_not_reached_is_named(self):
        script = '''
for step in range(6):
    train()
    if step == 3:
        model.eval()
        with torch.no_grad():
            model(torch.randn(65536, 64).cuda())
        model.train()
'''
        told = self.run_it(script, "--steps", "2")
        self.assertEqual(told["seen"]["not_seen"][0], "the evaluation at train.py, line %d (eval())" % (LINES + 5))
        self.assertIsNone(told["seen"]["evaluated"])
        whole = self.run_it(script, "--until-exit")
        self.assertEqual((whole["seen"]["optimizer_steps"], whole["seen"]["ended"], whole["seen"]["not_seen"]), (6, "exit", []))
        self.assertGreater(whole["memory"]["allocated_bytes"], told["memory"]["allocated_bytes"] + 65536 * 64 * 4)
        self.assertEqual(self.run_it(script, "--steps", "4")["seen"]["optimizer_steps"], 4)

    def test_the_script_publishes_nothing_after_its_steps(self):
        told = self.run_it('''
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(512, 64)), batch_size=16)
for (x,) in data:
    optimizer.zero_grad()
    model(x.cuda()).square().mean().backward()
    optimizer.step()
print("after the loop")
os.system("echo uploaded")
''')
        self.assertIn("after the loop", self.errors)
        self.assertNotIn("uploaded", self.errors)
        self.assertIn("since it starts a program", "\n".join(told["seen"]["not_seen"]))

    def test_sentences(self):
        text = _seen.sentence(dict(optimizer_steps=2, ended="steps", where=None, evaluated=None, not_seen=["later steps"]))
        self.assertEqual(text, "2 optimizer steps were simulated; not simulated: later steps")
        self.assertIn("all that the script does", _seen.sentence(dict(optimizer_steps=1, ended="exit", where=None, evaluated=None, not_seen=[])))
        for source, line in (("x = 1\nmodel.eval()\n", 2), ("@torch.no_grad()\ndef f(): pass\n", None),
                             ("@torch.no_grad()\ndef f(model): return model(1)\n", 2), ("@torch.no_grad()\ndef sample(): pass\n", 2),
                             ("ema = copy.deepcopy(model).eval()\n", None), ("vgg.eval().requires_grad_(False)\n", None), ("eval('1')\n", None),
                             ("with torch.no_grad():\n    w.zero_()\n", None), ("with torch.inference_mode():\n    y = model(x)\n", 1),
                             ("def (\n", None),
                             ("for x in d:\n    f(x).backward()\n    print(1)\nprint(2)\nf(y)\n", 5), ("for x in d: f(x)\nf(y)\n", None),
                             ("trainer.evaluate()\n", 1)):
            self.write("s.py", source)
            found = _seen.evaluation_in(os.path.join(self.folder, "s.py"))
            self.assertEqual(found and found[0], line, source)

    # ---- what is run ----

    def test_modules_and_other_files(self):
        os.mkdir(os.path.join(self.folder, "pkg"))
        self.write("pkg/__init__.py", "")
        self.write("pkg/run.py", HEAD + "assert __name__ == '__main__' and sys.argv[1:] == ['--x', '-m'], sys.argv\ntrain()\ntrain()\n")
        self.assertEqual(self.run_it("", args=("-m", "pkg.run", "--x", "-m"))["seen"]["optimizer_steps"], 2)
        self.write("plain", HEAD + "train()\n")
        self.assertEqual(self.run_it("", "--gpu", "RTX 4090", args=("plain",))["gpu"]["name"], "rtx4090")
        for name, text, wanted in (("n.ipynb", "{}", "a notebook"), ("run.sh", "python x", "a shell script"), ("b.bin", "\0", "not a Python script")):
            self.write(name, text)
            self.assertIn(wanted, self.run_it("", args=(name,), code=3))
        self.assertIn("without a __main__.py", self.run_it("", args=("pkg",), code=3))
