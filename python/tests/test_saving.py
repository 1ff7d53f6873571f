"""python -m plimsoll on scripts that save: every file is afterwards what it was before. Needs PyTorch."""
import contextlib
import hashlib
import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

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


# Other names of the user's files; that of a process which sees the disk itself among them.
WAYS_THROUGH_PROC = '''
train()
fd = os.open("a.pt", os.O_RDONLY)
open("/proc/self/fd/%d" % fd, "w").write("1")
assert open("a.pt").read() == "1"
os.close(os.open("/dev/fd/%d" % os.open("b.pt", os.O_RDONLY), os.O_WRONLY | os.O_TRUNC))
open("/proc/self/cwd/log.txt", "a").write("1")
for parent in ("cwd", "root" + os.getcwd()):
    open("/proc/%d/%s/x.txt" % (os.getppid(), parent), "w").write("1")
    os.chmod("/proc/%d/%s/x.bin" % (os.getppid(), parent), 0o600)
assert open("x.txt").read() == "1"
open("/dev/stderr", "w").write("to the terminal")
print(os.stat("/dev/stdout").st_mode, file=open("/dev/null", "w"))
'''


class Folder(unittest.TestCase):
    """A folder with files of the user's, and a script in it."""

    namespace = "1"  # whether the kernel may hold back what is written

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
                found[os.path.join(where, name)] = "folder", os.lstat(os.path.join(where, name)).st_mode
            for name in files:
                path = os.path.join(where, name)
                s = os.lstat(path)
                attributes = {a: os.getxattr(path, a, follow_symlinks=False) for a in os.listxattr(path, follow_symlinks=False)}
                with open(path, "rb") as f:
                    found[path] = (hashlib.sha256(f.read()).hexdigest(), s.st_mode, s.st_mtime_ns, s.st_size, s.st_ino, s.st_uid, s.st_gid,
                                   s.st_nlink, attributes)
        return found

    def run_it(self, script, code=0, same=True, **how):
        """The warnings of the run, after which every file must be as it was; where it need not be, those that differ too."""
        with open(self.path("train.py"), "w") as out:
            out.write(HEAD + script)
        before = self.tree()
        how = {"cwd": self.folder, **how, "env": dict(os.environ, PLIMSOLL_NAMESPACE=self.namespace, **how.get("env", {}))}
        done = subprocess.run([sys.executable, "-m", "plimsoll", "--json", self.path("train.py")], capture_output=True, text=True, **how)
        after = self.tree()
        differ = sorted(os.path.relpath(p, self.folder) for p in {*before, *after} if before.get(p) != after.get(p))
        if same:
            self.assertEqual(differ, [], done.stdout + done.stderr)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        warnings = json.loads(done.stdout)["warnings"] if code == 0 else done.stderr
        return warnings if same else (warnings, differ)

    def to_the_end(self, script):
        warnings = self.run_it(script)
        self.assertFalse([w for w in warnings if "raised" in w], warnings)

    def held(self, warnings):
        found = [w for w in warnings if "of the script held back" in w]
        self.assertEqual(len(found), 1, warnings)
        self.assertFalse([w for w in warnings if "raised" in w or "was changed" in w or "another program" in w], warnings)
        self.assertIn("no file of its folder was written or changed", found[0])
        return found[0]


    def test_a_script_that_writes_to_every_descriptor(self):
        self.run_it('''
for fd in os.listdir("/proc/self/fd"):
    try:
        os.write(int(fd), b"{}\\n[1]\\nscript\\n")
    except OSError:
        pass
train()
train()
''')

    def test_files_that_were_given_open(self):
        """Standard input, and a descriptor of the shell's."""
        with open(self.path("log.txt"), "r+") as data, open(self.path("a.pt"), "a") as log:
            self.held(self.run_it('''
for way in (lambda: os.write(0, b"THE"), lambda: os.ftruncate(0, 1), lambda: open("/proc/self/fd/0", "w").write("THE")):
    try:
        way()
    except OSError as problem:
        print(problem)
assert sys.stdin.read() == "user's log.txt"
os.write(%d, b"more")
torch.save(1, "b.pt")
train()
train()
''' % log.fileno(), stdin=data if data.seek(4) else None, pass_fds=[log.fileno()]))


class Saving(Folder):
    """Python's functions alone hold back, as where a system has no namespaces for its users."""

    namespace = "0"

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
    raise AssertionError("an exclusive open of a file that exists")
except FileExistsError:
    pass
np.save("x.npy", np.ones(3)); np.savez("x.npz", a=np.ones(3)); np.savez_compressed("x.npz", a=np.ones(3)); np.ones(3).tofile("x.bin")
train()
'''))
        self.assertIn("open (log.txt)", held)
        self.assertIn("more files", held)

    def test_functions_bound_before_the_run_are_refused(self):
        self.to_the_end('''
import _io, posix
train()
def refused(function, *args):
    try:
        function(*args)
    except PermissionError as problem:
        assert "plimsoll holds back" in str(problem), problem
        return
    raise AssertionError("not refused: %s" % (args,))
refused(_io.FileIO, "ckpt.pt", "w")
refused(posix.open, "ckpt.pt", os.O_WRONLY | os.O_TRUNC)
refused(posix.truncate, "ckpt.pt", 0)
refused(posix.unlink, "ckpt.pt")
refused(posix.rename, "ckpt.pt", "new.pt")
refused(posix.rename, "new.pt", "ckpt.pt")
refused(posix.rmdir, "out/old")
train()
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

    def test_paths_that_native_code_opens(self):
        for name in ("trace.json", "et.json", "storage.bin"):
            with open(self.path(name), "w") as out:
                out.write("the user's " + name)
        held = self.held(self.run_it('''
from torch.package import PackageExporter
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile
observer = ExecutionTraceObserver().register_callback("et.json")
observer.start()
train()
observer.stop()
observer.unregister_callback()
with profile(activities=[ProfilerActivity.CPU]) as prof:
    torch.ones(3) + 1
prof.export_chrome_trace("trace.json")
assert "traceEvents" in open("trace.json").read()
with PackageExporter("a.pt") as package:
    package.save_text("p", "t.txt", "hello")
    package.save_pickle("p", "n.pkl", {"n": 1})
from torch.package import PackageImporter
assert PackageImporter("a.pt").load_text("p", "t.txt") == "hello"
@torch.jit.script
def double(x):
    return x * 2
double.save("b.pt")
torch.jit.script(nn.ReLU())._c.save("ckpt.pt")
writer = torch._C.PyTorchFileWriter("c.pt")
writer.write_record("r", b"123", 3)
writer.write_end_of_file()
storage = torch.UntypedStorage.from_file("storage.bin", True, 4096)
storage[0] = 7
assert open("storage.bin", "rb").read(1) == b"\\x07"
torch.UntypedStorage.from_file("x.bin", shared=True, nbytes=4096)
assert os.path.getsize("x.bin") == 4096
train()
'''))
        self.assertIn("ExecutionTraceObserver.register_callback (et.json)", held)
        self.assertIn("profile.export_chrome_trace (trace.json)", held)
        self.assertIn("torch.package.PackageExporter (a.pt)", held)

    def test_databases(self):
        with contextlib.closing(sqlite3.connect(self.path("runs.db"))) as base, base:
            base.execute("create table runs (loss real)")
            base.execute("insert into runs values (1.0)")
        held = self.held(self.run_it('''
import sqlite3
train()
for name, kind in (("runs.db", {}), ("file:runs.db", {"uri": True}), ("new.db", {})):
    base = sqlite3.connect(name, **kind)
    base.execute("create table if not exists runs (loss real)")
    base.execute("delete from runs")
    base.commit()
    assert base.execute("select count(*) from runs").fetchone() == (0,)
    base.close()
assert sqlite3.connect(":memory:").execute("select 1").fetchone() == (1,)
try:
    sqlite3.Connection("runs.db")
    raise AssertionError("not refused")
except PermissionError:
    pass
train()
'''))
        self.assertIn("sqlite3.connect (runs.db", held)

    def test_other_programs_are_named_with_what_they_changed(self):
        for how in ('os.system("echo x > b.pt")', 'import subprocess; subprocess.run(["sh", "-c", "echo x > b.pt"])',
                    'os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", "echo x > b.pt"], os.environ), 0)'):
            with self.subTest(how):
                with open(self.path("b.pt"), "w") as out:
                    out.write("the user's b.pt")
                warnings, differ = self.run_it("train()\n%s\ntorch.save(1, 'a.pt')\ntrain()\n" % how, same=False)
                self.assertEqual(differ, ["b.pt"])
                text = "\n".join(warnings)
                self.assertIn("1 save of the script held back", text)
                self.assertNotIn("no file", text)
                self.assertIn("started another program, whose writes are not held back: ", text)
                self.assertIn("/b.pt (changed)", text)

    def test_a_program_without_writes_is_named_alone(self):
        text = "\n".join(self.run_it('train()\nos.system("true")\ntrain()\n'))
        self.assertIn("whose writes are not held back: true", text)
        self.assertNotIn("(changed)", text)

    def test_a_script_does_not_become_another_program(self):
        self.to_the_end('''
train()
try:
    os.execv("/bin/sh", ["sh", "-c", "echo x > b.pt"])
except PermissionError:
    train()
''')

    def test_files_that_native_code_changed_are_named(self):
        script = '''
import ctypes
libc = ctypes.CDLL(None)
train()
assert libc.truncate(b"b.pt", 1) == 0 and libc.unlink(b"c.pt") == 0 and libc.creat(b"new.bin", 0o644) > 0
%s
'''
        warnings, differ = self.run_it(script % "train()", same=False)
        self.assertEqual(differ, ["b.pt", "c.pt", "new.bin"])
        for part in ("b.pt (changed)", "c.pt (deleted)", "new.bin (new)"):
            self.assertIn(part, "\n".join(warnings))
        os.remove(self.path("new.bin"))
        for name in ("b.pt", "c.pt"):
            with open(self.path(name), "w") as out:
                out.write("the user's " + name)
        text, _ = self.run_it((script % "").replace("train()", ""), 3, same=False)
        self.assertIn("b.pt (changed)", text)

    def test_attributes(self):
        held = self.held(self.run_it('''
train()
os.chmod("a.pt", 0o600)
os.utime("b.pt", (1, 1))
Path("c.pt").touch()
Path("x.npy").chmod(0o700)
os.chown("x.npz", 1, 1)
os.lchown("latest.pt", 1, 1)
os.setxattr("x.bin", "user.a", b"1")
with open("x.txt") as f:
    os.fchmod(f.fileno(), 0o600)
    os.utime(f.fileno(), (1, 1))
fd = os.open("out", os.O_RDONLY)
os.chmod("config.json", 0o600, dir_fd=fd)
os.chmod("out/old", 0o700)
shutil.copystat("train.py", "x.pkl")
os.rename("log.txt", "moved.txt")
os.chmod("moved.txt", 0o600)
Path("new").touch()
os.chmod("new", 0o640)
assert os.stat("new").st_mode & 0o777 == 0o640
import posix
for function, args in ((posix.chmod, (0o600,)), (posix.utime, ((1, 1),)), (posix.chown, (1, 1)), (posix.setxattr, ("user.a", b"1"))):
    try:
        function("x.bz2", *args)
        raise AssertionError("not refused: %s" % function)
    except PermissionError:
        pass
train()
'''))
        self.assertIn("os.chmod (a.pt)", held)
        self.assertIn("os.utime (b.pt)", held)

    def test_paths_from_an_open_folder(self):
        self.held(self.run_it('''
train()
fd = os.open("out", os.O_RDONLY)
os.makedirs("elsewhere")
away = os.open("elsewhere", os.O_RDONLY)
os.mkdir("out", dir_fd=away)
with open("out/config.json", "w") as f:
    f.write("{}")
os.rename("model.safetensors", "m2", src_dir_fd=fd, dst_dir_fd=fd)
assert sorted(os.listdir("out")) == ["config.json", "m2", "old"] and os.stat("m2", dir_fd=fd).st_size == 32
os.rename("a.pt", "a.pt", dst_dir_fd=away)
assert os.listdir("elsewhere") == ["out", "a.pt"]
os.remove("out/old/weights.bin")
os.rmdir("old", dir_fd=fd)
assert not os.path.exists("out/old")
os.symlink("config.json", "c", dir_fd=fd)
assert os.readlink("c", dir_fd=fd) == "config.json" and open("out/c").read() == "{}"
os.unlink("c", dir_fd=fd)
train()
'''))

    def test_hard_links(self):
        self.held(self.run_it('''
import tempfile
train()
with tempfile.TemporaryDirectory() as away:
    there = os.path.join(away, "l")
    os.link("a.pt", there)
    with open(there, "r+") as f:
        f.write("THE")
    assert open(there).read() == "THE user's a.pt" and open("a.pt").read() == "the user's a.pt"
    os.link(there, there + "2")
    assert os.stat(there).st_nlink == 2
os.link("b.pt", "l")
with open("l", "a") as f:
    f.write("!")
assert open("l").read() == "the user's b.pt!"
import posix
try:
    posix.link("c.pt", "l2")
    raise AssertionError("not refused")
except PermissionError:
    pass
train()
'''))

    def test_a_renamed_file_is_copied_when_it_is_written(self):
        with open(self.path("large.bin"), "wb") as out:
            out.truncate(64 << 20)
        self.held(self.run_it('''
import tempfile
train()
def used():
    return sum(os.stat(p).st_size for p in glob.glob(tempfile.gettempdir() + "/plimsoll-*/*large*"))
before = used()
os.rename("large.bin", "large2.bin")
os.replace("large2.bin", "large3.bin")
assert used() == before and os.path.getsize("large3.bin") == 64 << 20 and not os.path.exists("large.bin")
with open("large3.bin", "r+b") as f:
    f.write(b"1")
assert used() >= before + (64 << 20)
shutil.disk_usage = lambda path: shutil._ntuple_diskusage(1, 1, 0)
os.rename("a.pt", "a2.pt")
try:
    open("a2.pt", "a")
    raise AssertionError("not refused")
except OSError as problem:
    assert "no room for a copy" in str(problem), problem
open("a2.pt", "w").write("no copy is needed")
train()
'''))

    def test_links(self):
        self.held(self.run_it('''
train()
os.makedirs("run-1")
Path("run-1/w.pt").write_text("1")
for i in range(2):
    os.symlink("run-1", "tmp")
    os.replace("tmp", "latest")
assert os.readlink("latest") == "run-1" and os.path.islink("latest") and os.path.isdir("latest") and not os.path.lexists("tmp")
assert open("latest/w.pt").read() == "1" and os.listdir("latest") == ["w.pt"] and os.path.realpath("latest/w.pt") == os.path.abspath("run-1/w.pt")
Path("latest/w2.pt").write_text("2")
assert Path("run-1/w2.pt").read_text() == "2"
assert [e.is_dir() and e.is_symlink() for e in os.scandir(".") if e.name == "latest"] == [True]
os.symlink("out", "to-out")
assert open("to-out/config.json").read() == "the user's out/config.json" and os.listdir(b"to-out/old") == [b"weights.bin"]
open("to-out/config.json", "w").write("{}")
assert Path("out/config.json").read_text() == "{}"
os.rename("latest.pt", "last.pt")
assert os.readlink("last.pt") == "ckpt.pt" and not os.path.lexists("latest.pt")
os.remove("latest")
assert not os.path.lexists("latest") and os.path.exists("run-1/w.pt")
os.symlink("a1", "a2"); os.symlink("a2", "a1")
assert not os.path.exists("a1")
train()
'''))

    def test_folders_are_rotated(self):
        self.held(self.run_it('''
train()
os.rename("out", "out.1")
assert not os.path.exists("out") and sorted(os.listdir("out.1")) == ["config.json", "model.safetensors", "old"]
assert Path("out.1/old/weights.bin").read_text() == "the user's out/old/weights.bin"
os.makedirs("out")
assert os.listdir("out") == [] and os.listdir(b"out") == []
Path("out/config.json").write_text("{}")
assert Path("out.1/config.json").read_text() == "the user's out/config.json"
Path("out.1/config.json").write_text("[]")
os.rename("out.1", "out.2")
os.rename("out", "out.1")
assert Path("out.1/config.json").read_text() == "{}" and Path("out.2/config.json").read_text() == "[]"
shutil.rmtree("out.2")
shutil.move("out.1", "out")
assert [n for _, _, names in os.walk(".") for n in names if n == "config.json"] == ["config.json"]
assert b"a.pt" in os.listdir(b".")
os.remove("a.pt")
assert b"a.pt" not in os.listdir(b".") and b"a.pt" not in [e.name for e in os.scandir(b".")]
assert "a.pt" not in os.listdir(os.open(".", os.O_RDONLY))
train()
'''))

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

    @unittest.skipUnless(importlib.util.find_spec("safetensors"), "no safetensors")
    def test_safetensors_opened(self):
        self.held(self.run_it('''
from safetensors import safe_open
from safetensors.torch import load_model, save_file, save_model
save_model(model, "new.safetensors")
assert load_model(model, "new.safetensors") == (set(), [])
save_file({"a": torch.ones(3, 4), "b": torch.zeros(2).cuda()}, "x.bin")
os.rename("x.bin", "m.safetensors")
with safe_open("m.safetensors", framework="pt", device="cpu") as f:
    assert list(f.keys()) == ["a", "b"] and f.get_tensor("b").device.type == "cpu"
    part = f.get_slice("a")
    assert part.get_shape() == [3, 4] and part.get_dtype() == "F32" and part[1:2].tolist() == [[1.0] * 4]
train()
train()
'''))

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "no transformers")
    def test_save_pretrained(self):
        self.held(self.run_it('''
train()
from transformers import GPT2Config, GPT2LMHeadModel
gpt2 = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=32, n_head=2, vocab_size=100, bos_token_id=1, eos_token_id=1)).cuda()
gpt2.save_pretrained("out")
gpt2.save_pretrained("new")
assert sorted(os.listdir("new")) == ["config.json", "generation_config.json", "model.safetensors"]
gpt2 = GPT2LMHeadModel.from_pretrained("new")
train()
'''))

    def test_saving_on_the_way_out(self):
        self.held(self.run_it('''
import atexit
atexit.register(lambda: torch.save(model.state_dict(), "ckpt.pt"))
def late():
    while True:
        with open("ckpt.pt", "wb") as f:
            torch.save({"step": 1}, f)
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

    def test_copies_of_tensors(self):
        """As Lightning's ModelCheckpoint copies what was logged."""
        self.to_the_end('''
import copy
train()
loss = model(torch.randn(16, 64).cuda()).mean().detach()
other = copy.deepcopy({"loss": loss})["loss"]
assert other is not loss and other.fake_mode is loss.fake_mode
train()
''')

    def test_a_script_that_raises(self):
        self.assertIn("raised ValueError", self.run_it('torch.save(model, "ckpt.pt")\nopen("log.txt", "w")\nraise ValueError("no data")\n', 3))

    def test_a_file_that_is_opened_to_be_cut_to_nothing(self):
        self.held(self.run_it('''
train()
fd = os.open("a.pt", os.O_RDWR | os.O_TRUNC)
os.write(fd, b"1")
os.close(fd)
assert open("a.pt").read() == "1"
os.close(os.open("b.pt", os.O_RDONLY | os.O_TRUNC))
assert os.path.getsize("b.pt") == 0
train()
'''))

    def test_ways_through_proc(self):
        held = self.held(self.run_it(WAYS_THROUGH_PROC + '''
import posix
try:
    posix.open("/proc/self/cwd/c.pt", os.O_WRONLY | os.O_TRUNC)
    raise AssertionError("not refused")
except PermissionError:
    pass
train()
'''))
        self.assertIn("open (/proc/self/fd/", held)

    def test_handlers_of_signals(self):
        self.held(self.run_it('''
import signal
def alarm(*_):
    open("log.txt", "w").write("alarm")
    if os.path.exists("a.pt"):
        os.remove("a.pt")
    open("a.pt", "w").write("alarm")
assert signal.signal(signal.SIGALRM, alarm) is signal.SIG_DFL and signal.getsignal(signal.SIGALRM) is alarm
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
end = time.time() + 1
while time.time() < end:
    open("x.txt", "a").write("1")
    os.rename("b.pt", "b2.pt")
    os.rename("b2.pt", "b.pt")
signal.setitimer(signal.ITIMER_REAL, 0)
assert signal.signal(signal.SIGALRM, signal.SIG_IGN) is alarm
train()
'''))

    def test_a_folder_that_is_made_and_renamed(self):
        self.held(self.run_it('''
os.makedirs("run.tmp/checkpoint")
open("run.tmp/checkpoint/w", "w").write("1")
os.rename("run.tmp", "run")
assert open("run/checkpoint/w").read() == "1"
train()
train()
'''))

    def test_holes_are_not_filled(self):
        with open(self.path("large.bin"), "wb") as out:
            out.truncate(1 << 40)
            out.seek(1 << 30)
            out.write(b"the user's")
        with unittest.mock.patch.object(Folder, "tree", lambda folder: {"large.bin": os.stat(folder.path("large.bin")).st_mtime_ns}):
            self.to_the_end('''
train()
with open("large.bin", "r+b") as f:
    f.write(b"1")
    f.seek(1 << 30)
    assert f.read(10) == b"the user's" and os.fstat(f.fileno()).st_size == 1 << 40 and os.fstat(f.fileno()).st_blocks < 1000
train()
''')

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


def _has_namespaces():
    """Whether this system lets a process have its own view of the file system."""
    done = subprocess.run([sys.executable, "-c", "import tempfile\nfrom plimsoll import _overlay\n_overlay.enter(tempfile.mkdtemp(), [], [])"],
                          capture_output=True)
    return done.returncode == 0


@unittest.skipUnless(_has_namespaces(), "this system lets no process have a mount namespace")
class Overlaid(Folder):
    """The kernel holds back: native code and other programs too, and each sees what the others wrote."""

    def test_functions_of_python(self):
        held = self.held(self.run_it('''
train()
for i in range(2):
    torch.save({"model": model.state_dict(), "step": i}, "ckpt.pt")
assert torch.load("latest.pt")["step"] == 1
os.replace("a.pt", "b.pt")
os.remove("c.pt")
shutil.rmtree("out")
os.makedirs("out/old")
Path("out/config.json").write_text("{}")
assert sorted(os.listdir("out")) == ["config.json", "old"] and os.listdir("out/old") == [] and not os.path.exists("a.pt")
os.chmod("x.npy", 0o600)
assert os.stat("x.npy").st_mode & 0o777 == 0o600
with open("log.txt", "a") as f:
    f.write("more")
assert open("log.txt").read() == "the user's log.txtmore"
np.save("x.npy", np.ones(3))
m = np.memmap("x.bin", dtype="uint8", mode="r+", shape=(4,))
m[:] = 7
m.flush()
assert open("x.bin", "rb").read()[:4] == b"\\x07" * 4
with open(__file__, "a") as f:
    f.write("#")
import posix
os.close(posix.open("x.txt", posix.O_WRONLY | posix.O_TRUNC))
assert os.path.getsize("x.txt") == 0
train()
'''))
        for part in ("torch.save (ckpt.pt, 2 times)", "os.rename (b.pt)", "os.remove (c.pt)", "shutil.rmtree (out)"):
            self.assertIn(part, held)

    def test_native_code_and_programs(self):
        warnings = "\n".join(self.run_it('''
import ctypes, subprocess
libc = ctypes.CDLL(None)
train()
assert libc.truncate(b"b.pt", 1) == 0 and libc.unlink(b"c.pt") == 0 and libc.creat(b"new.bin", 0o644) > 0
assert os.path.getsize("b.pt") == 1 and not os.path.exists("c.pt")
torch.save(1, "new.pt")
subprocess.run("cp new.pt a.pt && rm -r out ckpt.pt && mv x.npy y.npy && echo > log.txt && mkdir more", shell=True, check=True)
assert torch.load("a.pt") == 1 and not os.path.exists("out") and os.path.isdir("more")
subprocess.run([sys.executable, "-c", "open('x.pkl', 'w').write('child'); import os; os.remove('x.npz')"], check=True)
assert open("x.pkl").read() == "child"
import sqlite3
c = sqlite3.connect("new.db")
c.execute("create table t (a)")
c.commit()
train()
'''))
        self.assertNotIn("raised", warnings)
        self.assertIn("held back too, of native code and other processes: ", warnings)
        self.assertIn("started another program, whose writes outside of caches were held back too: ", warnings)
        self.assertNotIn("(changed)", warnings)

    def test_processes_and_threads(self):
        self.held(self.run_it('''
import multiprocessing
from concurrent.futures import ThreadPoolExecutor
def work(name):
    with open(name, "w") as f:
        f.write("worker")
    os.remove("c.pt") if name == "a.pt" else None
for method, names in (("fork", ("a.pt", "b.pt")), ("spawn", ("x.pkl", "new.txt"))):
    with multiprocessing.get_context(method).Pool(2) as pool:
        pool.map(work, names)
    assert open(names[0]).read() == open(names[1]).read() == "worker"
with ThreadPoolExecutor(2) as pool:
    list(pool.map(work, ["x.npy", "x.npz"]))
pid = os.fork()
if pid == 0:
    shutil.rmtree("out")
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0 and not os.path.exists("out")
train()
train()
'''))

    def test_ways_through_proc(self):
        self.held(self.run_it(WAYS_THROUGH_PROC + "train()\n"))

    def test_between_folders(self):
        """What is one disk for the script may be two overlays."""
        with tempfile.TemporaryDirectory(dir="/var/tmp") as away:
            self.held(self.run_it('''
train()
os.rename("a.pt", %r)
assert open(%r).read() == "the user's a.pt" and not os.path.exists("a.pt")
train()
''' % (away + "/a.pt", away + "/a.pt")))
            self.assertEqual(os.listdir(away), [])

    @unittest.skipIf(os.geteuid(), "only root may mount")
    def test_a_cache_that_holds_the_scripts_folder(self):
        os.mkdir(self.path("data"))
        subprocess.run(["mount", "-t", "tmpfs", "none", self.path("data")], check=True)
        self.addCleanup(subprocess.run, ["umount", self.path("data")], check=True)
        with unittest.mock.patch.object(self, "folder", self.path("out")):
            for name in ("ckpt.pt", "a.pt"):
                with open(self.path(name), "w") as out:
                    out.write("the user's " + name)
            self.held(self.run_it('train()\ntorch.save(1, "ckpt.pt")\nos.truncate("a.pt", 0)\ntrain()\n',
                                  env={"HF_HOME": os.path.dirname(self.folder)}))

    @unittest.skipIf(os.geteuid(), "only root may mount")
    def test_what_is_mounted_in_the_folder(self):
        for name in ("out", "out/old"):
            os.makedirs(self.path(name), exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "none", self.path(name)], check=True)
            self.addCleanup(subprocess.run, ["umount", self.path(name)], check=True)
            with open(self.path(name + "/data"), "w") as out:
                out.write("the user's")
        for cache in ("", self.folder, self.path("out")):
            with self.subTest(cache=cache):
                self.held(self.run_it('''
train()
for name in ("out/data", "out/old/data"):
    assert open(name).read() == "the user's", name
    open(name, "w").write("1")
os.rename("a.pt", "b.pt")
import ctypes
assert ctypes.CDLL(None).truncate(b"c.pt", 1) == 0
train()
''', env={"HF_HOME": cache}))

    def test_started_in_the_root(self):
        """Nothing can be laid over that: Python's functions hold back by themselves."""
        warnings = "\n".join(self.run_it('''
train()
open("plimsoll-test-root", "w").write("1")
assert open("/plimsoll-test-root").read() == "1"
train()
''', cwd="/"))
        self.assertFalse(os.path.exists("/plimsoll-test-root"))
        self.assertIn("1 save of the script held back", warnings)

    def test_a_run_that_dies(self):
        for way in ("os.abort()", "os.kill(os.getpid(), 9)", "os._exit(1)", "sys.exit(2)", "raise ValueError"):
            with self.subTest(way):
                self.run_it('os.makedirs("made/new")\ntorch.save(1, "ckpt.pt")\nopen("made/new/f", "w")\nos.remove("a.pt")\n%s\n' % way, 3)

    def test_many_ways(self):
        """Each is tried, on what those before it left."""
        ended = []
        for ways in WAYS:
            body = "".join("try:\n    %s\nexcept OSError as problem:\n    print(problem)\n" % way.replace("\n", "\n    ") for way in ways)
            warnings = self.run_it("train()\n" + body + "train()\n")
            ended += [w for w in warnings if "raised" in w]
        self.assertEqual(ended, [])


class ManyWays(Folder):
    """The same by Python's functions alone."""

    namespace = "0"

    def test_many_ways(self):
        for ways in WAYS[:-1]:
            body = "".join("try:\n    %s\nexcept OSError as problem:\n    print(problem)\n" % way.replace("\n", "\n    ") for way in ways)
            self.assertFalse([w for w in self.run_it("train()\n" + body + "train()\n") if "raised" in w])


# Ways to save, replace and delete; the last list's are other processes' and native code's.
WAYS = (
    ('torch.save(model.state_dict(), "ckpt.pt")', 'torch.save(model, "out/model.safetensors")', 'torch.save(1, "latest.pt")',
     'with open("a.pt", "wb") as f: torch.save(optimizer.state_dict(), f)', 'torch.jit.save(torch.jit.script(nn.Linear(2, 2)), "b.pt")',
     'torch.save(1, "x.tmp")\nos.replace("x.tmp", "c.pt")', 'torch.save(1, "x.tmp")\nshutil.move("x.tmp", "c.pt")',
     'torch.save({"a": 1}, Path("out") / "old" / "weights.bin")', 'np.save("x.npy", np.ones(3))', 'np.savez("x.npz", a=np.ones(3))',
     'np.savez_compressed("x.npz", a=np.ones(3))', 'np.savetxt("x.txt", np.ones(3))', 'np.ones(3).tofile("x.bin")',
     'm = np.memmap("x.bin", dtype="uint8", mode="w+", shape=(4,))\nm[:] = 1\nm.flush()',
     'm = np.memmap("log.txt", dtype="uint8", mode="r+", shape=(4,))\nm[:] = 1\nm.flush()',
     'np.lib.format.open_memmap("x.npy", mode="w+", shape=(3,))[:] = 1'),
    ('pickle.dump({}, open("x.pkl", "wb"))', 'import json\njson.dump({}, open("out/config.json", "w"))', 'Path("log.txt").write_text("")',
     'Path("log.txt").unlink()', 'import logging\nlogging.basicConfig(filename="x.txt", filemode="w", force=True)\nlogging.warning("x")',
     'import csv\ncsv.writer(open("x.txt", "a")).writerow([1])', 'open(__file__, "a").write("#")', 'open(__file__, "w").write("")',
     'import gzip\ngzip.open("x.bin", "wb").write(b"1")', 'import bz2\nbz2.open("x.bz2", "wb").write(b"1")',
     'import zipfile\nzipfile.ZipFile("x.npz", "w").writestr("a", "b")', 'import tarfile\ntarfile.open("x.txt", "w").add("a.pt")',
     'import logging.handlers\nh = logging.handlers.RotatingFileHandler("log.txt", maxBytes=1, backupCount=2)\nr = logging.getLogger("q")\n'
     'r.addHandler(h)\nfor i in range(5): r.warning("x" * 50)', 'import sqlite3\nsqlite3.connect("db.sqlite").execute("create table t (a)")',
     'import mmap\nf = open("x.bin", "r+b")\nm = mmap.mmap(f.fileno(), 0)\nm[0:1] = b"9"\nm.flush()',
     'fd = os.open("x.txt", os.O_WRONLY | os.O_TRUNC)\nos.write(fd, b"1")', 'os.truncate("log.txt", 0)'),
    ('os.chmod("a.pt", 0)\nos.utime("b.pt", (1, 1))', 'shutil.copy("a.pt", "b.pt")', 'shutil.copyfile("a.pt", "latest.pt")',
     'os.symlink("a.pt", "zz")\nos.replace("zz", "latest.pt")', 'os.makedirs("out/new", exist_ok=True)\nopen("out/new/f", "w").write("1")',
     'shutil.copytree("out", "ckpts")\nshutil.rmtree("out/old")', 'os.rename("out", "out.bak")', 'os.makedirs("out")', 'shutil.rmtree("out.bak")',
     'shutil.rmtree("out", ignore_errors=True)', 'for f in glob.glob("*.pt"): os.remove(f)', 'os.symlink("gone", "zz")\nos.replace("zz", "x.npy")'),
    ('import subprocess\nsubprocess.run("rm -rf out; cp a.pt b.pt; echo x > log.txt", shell=True)', 'os.system("mv ckpt.pt old.pt")',
     'subprocess.run([sys.executable, "-c", "open(\'x.txt\', \'w\')"])',
     'import multiprocessing\np = multiprocessing.Process(target=lambda: os.remove("a.pt"))\np.start()\np.join()',
     'pid = os.fork()\nif pid == 0:\n    open("log.txt", "w").write("x")\n    os._exit(0)\nos.waitpid(pid, 0)',
     't = threading.Thread(target=lambda: open("log.txt", "w").write("t"))\nt.start()\nt.join()',
     'import ctypes\nlibc = ctypes.CDLL(None)\nlibc.truncate(b"x.bin", 1)\nlibc.unlink(b"c.pt")', 'import posix\nposix.unlink("x.npz")',
     'import _io\n_io.FileIO("x.txt", "w")'),
)
