"""Scripts of several processes, loaders with workers, frameworks: one rank under the tracer. Needs PyTorch."""
import contextlib
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

import plimsoll
from plimsoll import _launch

try:
    import torch
    from plimsoll._fakegpu import FakeGPU
    from plimsoll._ranks import Ranks
    from plimsoll.capture import Recorder, StepDone
    from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
except ImportError:
    torch = None

# The model, for a script and for the library: four blocks, 134 M parameters.
MODEL = "nn.Sequential(*[nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048)) for _ in range(4)])"

LOOP = '''
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(4):
    x, y = torch.randn(64, 2048).cuda(), torch.randn(64, 2048).cuda()
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
'''

DDP = '''
import os, torch, torch.distributed as dist
from torch import nn
dist.init_process_group("nccl")
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
assert dist.get_backend() == "nccl" and dist.is_nccl_available()
model = nn.parallel.DistributedDataParallel(%s.to(local), device_ids=[local], **OPTIONS)
''' % MODEL + LOOP

FSDP2 = '''
import os, torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = %s.cuda()
for block in model:
    fully_shard(block)
fully_shard(model)
''' % MODEL + LOOP

FSDP1 = '''
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
dist.init_process_group("gloo")
model = FullyShardedDataParallel(%s, auto_wrap_policy=ModuleWrapPolicy({nn.Sequential}), device_id=0)
''' % MODEL + LOOP

SPAWN = '''
import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

def main(rank, world_size):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "12355"
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    model = nn.parallel.DistributedDataParallel(nn.Linear(1000, 1000).to(rank), device_ids=[rank])
    data = TensorDataset(torch.randn(88, 1000), torch.randn(88, 1000))
    loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data), num_workers=2, pin_memory=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = torch.tensor([len(loader.sampler)])
    dist.all_reduce(total)
    assert total.item() == 88 and len(loader) == math.ceil(88 / world_size / 16), (total, len(loader))
    names = [None] * world_size
    dist.all_gather_object(names, "rank")
    assert names == ["rank"] * world_size
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x.to(rank)), y.to(rank)).backward()
        optimizer.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    import math
    count = torch.cuda.device_count()
    if "process" in sys.argv:
        started = [mp.Process(target=main, args=(rank, count)) for rank in range(count)]
        for process in started:
            process.start()
        for process in started:
            process.join()
            assert process.exitcode == 0
    else:
        mp.spawn(main, args=(count,), nprocs=count, join=True)
'''

HANDMADE = '''
import torch
from torch import nn

class Framework:
    """As Accelerate does it: autocast inside forward, evaluation first, two backward passes per step."""
    def __init__(self, model):
        self.model = model
        forward = model.forward
        model.forward = lambda *a, **k: torch.autocast("cuda", torch.bfloat16)(forward)(*a, **k)

model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).cuda()
Framework(model)
model.eval()
with torch.no_grad():
    model(torch.randn(96, 256).cuda())
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    for _ in range(2):
        hidden = torch.utils.checkpoint.checkpoint(model, torch.randn(32, 256).cuda(), use_reentrant=False)
        hidden.float().pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
'''


def model():
    with torch.device("meta"):
        return eval(MODEL, {"nn": torch.nn})


@unittest.skipIf(torch is None, "this Python has no PyTorch")
class Traced(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            self.assertNotIn(name, os.environ)

    def script(self, text, name="train.py"):
        path = os.path.join(self.folder.name, name)
        with open(path, "w") as out:
            out.write(text)
        return path

    def traced(self, text, world=None, rank=None, words=()):
        """The trace's job, and the report, of a script in this process."""
        launch = _launch.parse([*words, self.script(text)], world, rank)
        recorder, before, argv, path = Recorder(), dict(os.environ), sys.argv, list(sys.path)
        os.environ.update(launch.environment())
        try:
            with contextlib.redirect_stdout(io.StringIO()), recorder:
                Ranks(launch, recorder.recording.warn).install(recorder)
                launch.run()
        except StepDone:
            pass
        finally:
            sys.argv, sys.path[:] = argv, path
            os.environ.clear()
            os.environ.update(before)
        trace = recorder.trace()
        return json.loads(trace), plimsoll.estimate(trace)


class Ranked(Traced):
    def near(self, a, b, share=0.01):
        self.assertLess(abs(a - b), share * b, "%d and %d" % (a, b))

    def test_ddp_agrees_with_the_library(self):
        for world in (2, 8):
            trace, report = self.traced(DDP.replace("**OPTIONS", ""), world)
            self.assertEqual((trace["job"]["world"], trace["job"]["rank"], trace["job"]["parallel"]), (world, 0, "ddp"))
            whole = plimsoll.estimate(model(), torch.randn(64, 2048), loss="mse", optimizer="adamw", parallel="ddp:%d" % world)
            self.near(report.peak_bytes, whole.peak_bytes)
            self.near(report.breakdown["gradients"], whole.breakdown["gradients"])
            self.assertIn("rank 0 of %d (ddp)" % world, str(report))
            self.assertTrue(any("rank 0 of %d (--world)" % world in w for w in report.warnings), report.warnings)

    def test_ddp_alone(self):
        """Without torchrun the script is rank 0 of 1: the buckets are there, and NCCL's memory of a group of one."""
        trace, report = self.traced(DDP.replace("**OPTIONS", ""))
        self.assertEqual(trace["job"]["world"], 1)
        self.assertNotIn("RANK", os.environ)
        _, eight = self.traced(DDP.replace("**OPTIONS", ""), 8)
        self.assertEqual(report.overhead_bytes - eight.overhead_bytes, 558 << 20)
        self.assertEqual(report.reserved_bytes, eight.reserved_bytes)
        self.assertTrue(any("--world N" in w for w in report.warnings), report.warnings)

    def test_ddp_options(self):
        _, plain = self.traced(DDP.replace("**OPTIONS", ""), 2)
        _, view = self.traced(DDP.replace("**OPTIONS", "gradient_as_bucket_view=True"), 2)
        weights = plain.breakdown["weights"]
        self.near(plain.breakdown["gradients"], 2 * weights)
        # the gradients are views of the buckets from the first step on
        self.near(view.breakdown["gradients"], weights, 0.1)

    def test_fsdp2_agrees_with_the_library(self):
        trace, report = self.traced(FSDP2, 4, 3)
        self.assertEqual((trace["job"]["rank"], trace["job"]["parallel"]), (3, "fsdp2"))
        whole = plimsoll.estimate(model(), torch.randn(64, 2048), loss="mse", optimizer="adamw", parallel="fsdp2:4")
        self.near(report.peak_bytes, whole.peak_bytes)
        self.assertTrue(any(len(s) == 3 for s in trace["storages"]), "no storage on a stream of its own")
        counted = sum(math.prod(p[3]) for p in trace["parameters"])
        self.assertEqual(counted, sum(p.numel() for p in model().parameters()))

    def test_fsdp(self):
        trace, report = self.traced(FSDP1, 4)
        self.assertEqual(trace["job"]["parallel"], "fsdp")
        _, two = self.traced(FSDP2, 4)
        self.near(report.allocated_bytes, two.allocated_bytes, 0.15)

    def test_torchrun(self):
        trace, _ = self.traced(FSDP2, words=["torchrun", "--standalone", "--nproc-per-node", "2", "--nnodes=2"])
        self.assertEqual(trace["job"]["world"], 4)

    def test_spawn(self):
        for text in (SPAWN, SPAWN.replace('"process" in sys.argv', "True")):
            trace, _ = self.traced(text, 4, 2)
            self.assertEqual((trace["job"]["rank"], trace["job"]["world"], trace["job"]["batch"]), (2, 4, 16))

    def test_a_mesh_without_a_group_and_weights_from_the_meta_device(self):
        """As pytorch/examples' distributed/FSDP2 and tensor_parallelism begin."""
        path = self.script('''
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
mesh = init_device_mesh("cuda", (4,))
assert mesh.size() == 4
with torch.device("meta"):
    model = nn.Sequential(nn.Linear(512, 2048), nn.Linear(2048, 512))
for layer in model: fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
model.to_empty(device="cuda")
for layer in model: layer.reset_parameters()
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(64, 512, device="cuda")).sum().backward()
    optimizer.step()
''')
        done = subprocess.run([sys.executable, "-m", "plimsoll", "--json", "--world", "4", path], capture_output=True, text=True,
                              cwd=self.folder.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual((told["seen"]["optimizer_steps"], told["model"]["parameters"]), (3, 2 * 512 * 2048 + 2048 + 512))

    def test_the_first_line(self):
        trace, report = self.traced(HANDMADE)
        self.assertEqual({key: trace["job"][key] for key in ("precision", "batch", "accumulate", "checkpoint")},
                         {"precision": "amp-bf16", "batch": 32, "accumulate": 2, "checkpoint": True})
        self.assertIn("amp-bf16, sgd, 2 backward passes per step, checkpointing", str(report))
        self.assertFalse(any("rank" in w for w in report.warnings), report.warnings)

    def test_data_parallel_is_told(self):
        _, report = self.traced("import torch\nfrom torch import nn\nmodel = nn.DataParallel(%s.cuda())\n" % MODEL + LOOP, 2)
        self.assertTrue(any("DataParallel over 2 cards" in w for w in report.warnings), report.warnings)

    def test_the_command(self):
        """python -m plimsoll torchrun, in a process of its own."""
        path = self.script(SPAWN.split("if __name__")[0].replace('"gloo", rank=rank, world_size=world_size', '"nccl"') +
                           "import math\nmain(int(os.environ['LOCAL_RANK']), int(os.environ['WORLD_SIZE']))\n")
        done = subprocess.run([sys.executable, "-m", "plimsoll", "--json", "--rank", "1", "torchrun", "--nproc-per-node", "4", path],
                              capture_output=True, text=True, cwd=self.folder.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)["warnings"]
        self.assertTrue(any("rank 1 of 4 (torchrun)" in w for w in said), said)
        done = subprocess.run([sys.executable, "-m", "plimsoll", self.script(HANDMADE)], capture_output=True, text=True, cwd=self.folder.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("batch 32, as recorded: amp-bf16, sgd, 2 backward passes per step, checkpointing", done.stdout)


class Words(unittest.TestCase):
    """Which rank of how many, of the words before a script."""

    def check(self, words, size, place=0, local=None, args=(), **options):
        launch = _launch.parse(words, **options)
        self.assertEqual((launch.world, launch.rank, launch.script, launch.args), (size, place, "train.py", list(args)))
        if local is not None:
            self.assertEqual((launch.local_world, launch.environment()["LOCAL_RANK"]), (local, str(place % local)))

    def test_plain(self):
        self.check(["train.py", "--world", "3"], None, args=("--world", "3"))
        self.assertEqual(_launch.parse(["train.py"]).environment(), {})
        self.check(["train.py"], 16, 9, 8, world=16, rank=9)
        self.check(["python", "train.py", "a"], None, args=("a",))
        launch = _launch.parse(["-m", "package.train", "a"])
        self.assertEqual((launch.script, launch.module, launch.args), ("package.train", True, ["a"]))

    @unittest.skipIf(torch is None, "this Python has no PyTorch")
    def test_torchrun(self):
        for words in (["torchrun"], ["-m", "torch.distributed.run"], ["python", "-m", "torch.distributed.launch"]):
            self.check([*words, "--nproc_per_node=4", "--nnodes", "2", "--node-rank", "1", "train.py", "--lr", "9"], 8, 4, 4, args=("--lr", "9"))
        self.check(["torchrun", "--nproc-per-node", "gpu", "train.py"], 6, 0, 6, world=6)
        self.check(["torchrun", "--nproc-per-node", "2", "train.py"], 8, 7, 8, world=8, rank=7)

    def test_wrong(self):
        for words, options in ((["train.py"], {"world": 0}), (["train.py"], {"world": 2, "rank": 2}), (["train.py"], {"rank": 1}),
                               (["accelerate", "config"], {})):
            with self.assertRaises(plimsoll.UsageError):
                _launch.parse(words, **options)
        with self.assertRaisesRegex(plimsoll.InputError, "DeepSpeed"):
            _launch.parse(["deepspeed", "train.py"])
        if torch is not None:
            with self.assertRaisesRegex(plimsoll.UsageError, "nproc"):
                _launch.parse(["torchrun", "--nproc-per-node", "many", "train.py"])


if torch is not None:
    class Split(IterableDataset):
        """Each worker its part; by itself, or by worker_init_fn."""

        def __init__(self, by_itself):
            self.start, self.end, self.by_itself = 0, 23, by_itself

        def __iter__(self):
            start, end, info = self.start, self.end, get_worker_info()
            if self.by_itself and info is not None:
                each = math.ceil((end - start) / info.num_workers)
                start, end = start + info.id * each, min(end, start + (info.id + 1) * each)
            return iter(range(start, end))

    class Numbered(Dataset):
        def __len__(self):
            return 19

        def __getitem__(self, index):
            return torch.full((get_worker_info().id + 1,), index)


def divide(number):
    dataset, count = get_worker_info().dataset, get_worker_info().num_workers
    each = math.ceil(dataset.end / count)
    dataset.start, dataset.end = number * each, min(dataset.end, (number + 1) * each)


@unittest.skipIf(torch is None, "this Python has no PyTorch")
class Loaders(unittest.TestCase):
    def batches(self):
        found = []
        for dataset, settings in ((Split(True), {}), (Split(False), {"worker_init_fn": divide}), (Split(True), {"batch_size": None}),
                                  (Split(True), {"drop_last": True}), (Numbered(), {"batch_size": 2}),
                                  (Numbered(), {"persistent_workers": True, "prefetch_factor": 3, "multiprocessing_context": "fork"})):
            loader = DataLoader(dataset, **{"batch_size": 3, "num_workers": 3, **settings})
            self.assertEqual(loader.num_workers, 3)
            found += [[b.tolist() if isinstance(b, torch.Tensor) else b for b in loader] for _ in range(2)]
        return found

    def test_batches_are_those_of_workers(self):
        with contextlib.redirect_stderr(io.StringIO()):
            real = self.batches()
        with FakeGPU():
            self.assertEqual(self.batches(), real)


if __name__ == "__main__":
    unittest.main()
