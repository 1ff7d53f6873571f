"""python -m plimsoll on scripts that save: every file is afterwards what it was before. Needs PyTorch."""
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("this Python has no PyTorch") from None

HEAD = '''
import glob, io, os, pickle, shutil, sys, threading, time
from pathlib import Path
import numpy as np
import torch
from torch import nn
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
def train():
    optimizer.zero_grad()
    model(torch.randn(16, 64).cuda()).square().mean().backward()
    optimizer.step()
'''


class Saving(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        torch.save({"weights": torch.ones(1000)}, self.path("ckpt.pt"))
        os.makedirs(self.path("out/old"))
        for name in ("a.pt", "b.pt", "c.pt", "x.npy", "x.npz", "x.bin", "x.txt", "x.pkl", "x.bz2", "m.safetensors", "log.txt",
                     "out/model.safetensors", "out/config.json", "out/old/weights.bin"):
            with open(self.path(name), "w") as out:
                out.write("the user's " + name)
        os.symlink("ckpt.pt", self.path("latest.pt"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def tree(self):
        found = {}
        for where, folders, files in os.walk(self.folder):
            for name in folders:
                found[os.path.join(where, name)] = "folder"
            for name in files:
                path = os.path.join(where, name)
                with open(path, "rb") as f:
                    found[path] = (os.path.islink(path), hashlib.sha256(f.read()).hexdigest())
        return found

    def run_it(self, script, code=0):
        """The warnings of the run, after which every file must be as it was."""
        with open(self.path("train.py"), "w") as out:
            out.write(HEAD + script)
        before = self.tree()
        done = subprocess.run([sys.executable, "-m", "plimsoll", "--json", "train.py"], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(self.tree(), before)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout)["warnings"] if code == 0 else done.stderr

    def held(self, warnings):
        found = [w for w in warnings if "held back" in w]
        self.assertEqual(len(found), 1, warnings)
        self.assertFalse([w for w in warnings if "raised" in w], warnings)
        return found[0]

    def test_torch_save(self):
        held = self.held(self.run_it('''
train()
for i in range(2):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": i}, "ckpt.pt")
torch.save(model, Path("a.pt"))
with open("b.pt", "wb") as f:
    torch.save(model.state_dict(), f)
torch.save(obj=model.state_dict(), f="latest.pt")
train()
'''))
        for part in ("5 saves of the script held back", "torch.save (ckpt.pt, 2 times)", "torch.save (a.pt)", "torch.save (b.pt)"):
            self.assertIn(part, held)

    def test_what_was_saved_can_be_loaded(self):
        self.held(self.run_it('''
train()
torch.save({"model": model.state_dict(), "step": 7}, "ckpt.pt.tmp")
os.replace("ckpt.pt.tmp", "ckpt.pt")
assert not os.path.exists("ckpt.pt.tmp")
back = torch.load("ckpt.pt", map_location="cpu")
assert back["step"] == 7 and back["model"]["0.weight"].device.type == "cpu"
model.load_state_dict(back["model"])
buffer = io.BytesIO()
torch.save(model.state_dict(), buffer)
buffer.seek(0)
model.load_state_dict(torch.load(buffer))
torch.save(torch.arange(4), "new.pt")
assert torch.load("new.pt").tolist() == [0, 1, 2, 3]
assert os.path.getsize("new.pt") and glob.glob("new*") == ["new.pt"] and "new.pt" in os.listdir() and Path("new.pt").is_file()
with open("x.pkl", "wb") as f:
    pickle.dump(model.state_dict(), f)
with open("x.pkl", "rb") as f:
    model.load_state_dict(pickle.load(f))
np.save("new.npy", np.ones(3))
assert np.load("new.npy").sum() == 3
train()
'''))

    def test_what_was_there_can_be_loaded(self):
        self.assertFalse([w for w in self.run_it('''
assert open("log.txt").read() == "the user's log.txt" and os.path.getsize("ckpt.pt") > 4000
train()
''') if "held back" in w])

    def test_files(self):
        held = self.held(self.run_it('''
train()
with open("log.txt", "a") as f:
    f.write(" and more")
assert open("log.txt").read() == "the user's log.txt and more"
with open("x.txt", "r+") as f:
    f.write("THE")
assert Path("x.txt").read_text() == "THE user's x.txt"
Path("x.bin").write_bytes(b"1")
os.truncate("x.npz", 3)
assert os.path.getsize("x.npz") == 3
os.remove("a.pt")
assert not os.path.exists("a.pt") and "a.pt" not in os.listdir(".")
Path("b.pt").unlink()
os.rename("c.pt", "a.pt")
assert open("a.pt").read() == "the user's c.pt" and not Path("c.pt").exists()
shutil.move("x.npy", "y.npy")
os.remove("latest.pt")
os.symlink("ckpt.pt", "latest.pt")
shutil.copy("log.txt", "x.pkl")
shutil.rmtree("out")
assert not os.path.exists("out")
os.makedirs("out/new")
assert os.listdir("out") == ["new"]
Path("out/new/x").write_text("x")
assert [p for _, _, names in os.walk("out") for p in names] == ["x"]
fd = os.open("x.bz2", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
os.write(fd, b"1")
os.close(fd)
import bz2
with bz2.open("x.bz2", "wb") as f:
    f.write(b"1")
try:
    open("log.txt", "x")
    raise SystemExit("an exclusive open of a file that exists")
except FileExistsError:
    pass
np.save("x.npy", np.ones(3)); np.savez("x.npz", a=np.ones(3)); np.savez_compressed("x.npz", a=np.ones(3)); np.ones(3).tofile("x.bin")
train()
'''))
        self.assertIn("open (log.txt)", held)
        self.assertIn("more files", held)

    def test_functions_bound_before_the_run_are_refused(self):
        self.run_it('''
import _io, posix
train()
def refused(function, *args):
    try:
        function(*args)
    except PermissionError as problem:
        assert "plimsoll holds back" in str(problem), problem
        return
    raise SystemExit("not refused: %s" % (args,))
refused(_io.FileIO, "ckpt.pt", "w")
refused(posix.open, "ckpt.pt", os.O_WRONLY | os.O_TRUNC)
refused(posix.truncate, "ckpt.pt", 0)
refused(posix.unlink, "ckpt.pt")
refused(posix.rename, "ckpt.pt", "new.pt")
refused(posix.rename, "new.pt", "ckpt.pt")
refused(posix.rmdir, "out/old")
train()
print("to the end", file=sys.stderr)
''')

    def test_formats_that_native_code_writes(self):
        held = self.held(self.run_it('''
train()
torch.jit.save(torch.jit.script(nn.ReLU()), "a.pt")
torch.jit.script(nn.ReLU()).save("b.pt")
torch.onnx.export(model, (torch.randn(1, 64),), "c.pt")
torch.export.save(None, "ckpt.pt")
import torch.distributed.checkpoint as dcp
dcp.save({"model": model.state_dict()}, checkpoint_id="out")
train()
'''))
        for part in ("torch.jit.save (a.pt)", "torch.onnx.export (c.pt)", "torch.export.save (ckpt.pt)"):
            self.assertIn(part, held)

    @unittest.skipUnless(importlib.util.find_spec("safetensors"), "no safetensors")
    def test_safetensors(self):
        held = self.held(self.run_it('''
train()
from safetensors.torch import load, load_file, save, save_file, save_model
save_file(model.state_dict(), "m.safetensors")
model.load_state_dict(load_file("m.safetensors"))
save_model(model, "out/model.safetensors")
with open("x.bin", "wb") as f:
    f.write(save(model.state_dict()))
model.load_state_dict(load(open("x.bin", "rb").read()))
import safetensors.numpy
safetensors.numpy.save_file({"a": np.ones(3)}, "x.npy")
train()
'''))
        self.assertIn("safetensors.torch.save_file (m.safetensors)", held)

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "no transformers")
    def test_save_pretrained(self):
        self.held(self.run_it('''
train()
from transformers import GPT2Config, GPT2LMHeadModel
gpt2 = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=32, n_head=2, vocab_size=100, bos_token_id=1, eos_token_id=1)).cuda()
gpt2.save_pretrained("out")
gpt2.save_pretrained("new")
assert sorted(os.listdir("new")) == ["config.json", "generation_config.json", "model.safetensors"]
train()
'''))

    def test_saving_on_the_way_out(self):
        self.held(self.run_it('''
import atexit
atexit.register(lambda: torch.save(model.state_dict(), "ckpt.pt"))
def late():
    while True:
        with open("ckpt.pt", "wb") as f:
            torch.save(model.state_dict(), f)
        torch.save(1, "a.pt")
        time.sleep(0.001)
threading.Thread(target=late, daemon=True).start()
try:
    while True:
        train()
finally:
    torch.save(model.state_dict(), "ckpt.pt")
    os.remove("log.txt")
'''))

    def test_a_script_that_raises(self):
        self.assertIn("raised ValueError", self.run_it('torch.save(model, "ckpt.pt")\nopen("log.txt", "w")\nraise ValueError("no data")\n', 3))

    def test_temporary_files_are_the_scripts_own(self):
        self.assertFalse([w for w in self.run_it('''
import tempfile
train()
with tempfile.TemporaryDirectory() as folder:
    Path(folder, "x").write_text("x")
    os.rename(os.path.join(folder, "x"), os.path.join(folder, "y"))
    assert Path(folder, "y").read_text() == "x"
    shutil.rmtree(folder)
    os.makedirs(folder)
assert not os.path.exists(folder)
with tempfile.NamedTemporaryFile() as f:
    f.write(b"1")
open("/dev/null", "w").write("x")
train()
''') if "held back" in w or "raised" in w])
