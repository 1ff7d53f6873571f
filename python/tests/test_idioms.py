"""python -m plimsoll: what published training scripts do that others do not; each case is the least that shows it. Needs PyTorch."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HEAD = '''
import torch
from torch import nn
model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()
'''


class Idioms(unittest.TestCase):
    def estimate(self, text, *options, code=0):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "train.py"), "w") as out:
                out.write(HEAD + text)
            done = subprocess.run([sys.executable, "-m", "plimsoll", "--json", *options, "train.py"], capture_output=True, text=True, cwd=folder)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout) if code == 0 else done.stderr

    def test_old_tensor_types(self):
        """Tensor = torch.cuda.FloatTensor; batch.type(Tensor), and the types by name, are copies to the card."""
        loop = '''
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = %s
    assert x.is_cuda and x.dtype is torch.float32, x
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
'''
        plain = self.estimate(loop % 'torch.rand(4096, 512).to("cuda")')
        for form in ("torch.rand(4096, 512).type(torch.cuda.FloatTensor)", "torch.rand(4096, 512).type('torch.cuda.FloatTensor')",
                     "torch.rand(4096, 512).cuda().type(torch.cuda.FloatTensor)"):
            self.assertEqual(self.estimate(loop % form)["memory"]["peak_bytes"], plain["memory"]["peak_bytes"], form)

    def test_triton_kernels_and_products_in_another_type(self):
        """Losses of TRL and Liger: kernels that only a card can run, and sums in float32 of bfloat16 products."""
        try:
            import triton  # noqa: F401
        except ImportError:
            self.skipTest("this Python has no Triton")
        said = self.estimate('''
import triton, triton.language as tl
@triton.jit
def double(x, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, at < size), at < size)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
known = torch.ones(4, device="cuda")
assert known.sum().item() == 4
for _ in range(2):
    x = torch.rand(64, 512).cuda()
    y = model(x)
    double[(64,)](y.detach(), 512, BLOCK=512)
    double[(1,)](known, 4, BLOCK=4)
    grads = torch.zeros(512, 512, device="cuda")
    torch.addmm(grads, y.bfloat16().t().detach(), x.bfloat16(), out_dtype=torch.float32, out=grads)
    assert torch.mm(x.half(), x.half().t(), out_dtype=torch.float32).shape == (64, 64)
    y.sum().backward()
    optimizer.step()
print(known.sum().item())
''')
        self.assertTrue([w for w in said["warnings"] if "not computed" in w], said["warnings"])  # what the kernel wrote

    def test_stream_by_name(self):
        self.estimate('''
side = torch.cuda.Stream()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    with torch.cuda.stream(stream=side):
        x = torch.rand(64, 512).cuda(non_blocking=True)
    torch.cuda.set_stream(stream=torch.cuda.default_stream())
    model(x).sum().backward()
    optimizer.step()
''')

    def test_an_evaluation_before_the_first_step(self):
        """What it held does not stay in the steps that follow, and what these hold from one to the next is freed in each."""
        text = '''
def forward():
    logits = model(torch.rand(8192, 512).cuda())
    return logits, logits.square().mean()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
%s
for _ in range(4):
    for _ in range(2):
        logits, loss = forward()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
'''
        evaluation = '''
with torch.no_grad():
    for _ in range(3):
        forward()
'''
        self.assertEqual(self.estimate(text % evaluation)["memory"]["allocated_bytes"], self.estimate(text % "")["memory"]["allocated_bytes"])

    def test_cudnn_benchmark_is_seen(self):
        """torch.backends.cudnn.benchmark = True: a shape's first call tries every algorithm, in large workspaces."""
        text = '''
torch.backends.cudnn.benchmark = %s
model = nn.Sequential(nn.Conv2d(64, 256, 4, 2, 1), nn.LeakyReLU(), nn.Conv2d(256, 512, 4, 2, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.rand(128, 64, 32, 32).cuda()).sum().backward()
    optimizer.step()
'''
        off, on = (self.estimate(text % flag)["memory"] for flag in (False, True))
        self.assertGreater(on["peak_bytes"], off["peak_bytes"])
        self.assertGreater(on["high_bytes"] / on["peak_bytes"], off["high_bytes"] / off["peak_bytes"])

    def test_a_parameter_made_of_anothers_type(self):
        """type(p)(tensor, requires_grad=...) is a parameter, as accelerate's empty weights and diffusers' loading have it."""
        self.estimate('''
for module in model.modules():
    for name, p in list(module._parameters.items()):
        kind = type(p)
        module._parameters[name] = kind(p.to("meta"), **{**p.__dict__, "requires_grad": p.requires_grad})
        assert module._parameters[name].is_meta
        module._parameters[name] = kind(torch.rand(p.shape), requires_grad=True).to("cuda")
        assert isinstance(module._parameters[name], torch.nn.Parameter) or module._parameters[name].is_cuda
parameters = [torch.nn.Parameter(p) for p in model.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)
for _ in range(2):
    model(torch.rand(64, 512).cuda()).sum().backward()
    optimizer.step()
''')

    def test_a_fault_of_the_recorder_is_no_success(self):
        """Where the package itself fails, the exit code is not 0."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("train.py", HEAD), ("sitecustomize.py", "import plimsoll._scripted as s\ns.Scripted = None\n")):
                with open(os.path.join(folder, name), "w") as out:
                    out.write(text)
            path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
            done = subprocess.run([sys.executable, "-m", "plimsoll", "train.py"], capture_output=True, text=True, cwd=folder,
                                  env=dict(os.environ, PYTHONPATH=path))
        self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)


if __name__ == "__main__":
    unittest.main()
