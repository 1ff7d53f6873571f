"""Measures a training script as it is: what nvidia-smi shows of its process, step by step.

    script.py OUT.json [--steps N] SCRIPT [ARGS...]

The script runs in this process with its own arguments and ends after N optimizer steps (8) or by itself. OUT.json gets
peak_bytes (the largest of NVML's figure every 20 ms and of the allocator's peak with what lies outside of it), after_2_steps,
and [most allocated, most reserved, NVML's figure] after each optimizer step. Optimizers that are not torch.optim's are not
counted. data/h200/scripts.tsv was made this way.
"""
import argparse
import json
import os
import runpy
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import process_bytes  # noqa: E402


class Watch:
    def __init__(self, out, wanted):
        self.out, self.wanted, self.steps, self.polled, self.over = out, wanted, [], 0, False
        threading.Thread(target=self.poll, daemon=True).start()

    def poll(self):
        import torch
        while not self.over:
            if torch.cuda.is_initialized():
                self.polled = max(self.polled, process_bytes() or 0)
            time.sleep(0.02)

    def figures(self):
        """Most allocated, most reserved, NVML's, and the peak so far; None without a card."""
        import torch
        if not torch.cuda.is_initialized():
            return None
        torch.cuda.synchronize()
        now, reserved = process_bytes() or 0, torch.cuda.max_memory_reserved()
        outside = now - torch.cuda.memory_reserved() if now else 0
        return [torch.cuda.max_memory_allocated(), reserved, now, max(self.polled, now, reserved + outside)]

    def step(self, optimizer, args, kwargs):
        self.steps.append(self.figures())
        if len(self.steps) >= self.wanted:
            self.write()
            os._exit(0)

    def write(self):
        import torch
        self.over = True
        last = self.figures()
        second = self.steps[1] if len(self.steps) > 1 else None
        with open(self.out, "w") as f:
            json.dump(dict(argv=sys.argv, torch=torch.__version__, peak_bytes=last and last[3], after_2_steps=second and second[3],
                           steps=[s and s[:3] for s in self.steps]), f)


def main():
    p = argparse.ArgumentParser(usage="script.py OUT.json [--steps N] SCRIPT [ARGS...]")
    p.add_argument("out")
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("script")
    p.add_argument("args", nargs=argparse.REMAINDER)
    a = p.parse_args()
    from torch.optim.optimizer import register_optimizer_step_post_hook
    watch = Watch(os.path.abspath(a.out), a.steps)
    register_optimizer_step_post_hook(watch.step)
    sys.argv = [a.script, *a.args]
    sys.path[0] = os.path.dirname(os.path.abspath(a.script))
    try:
        runpy.run_path(a.script, run_name="__main__")
    finally:
        watch.write()


if __name__ == "__main__":
    main()
