"""explain --snapshot: the file is PyTorch's memory snapshot, by PyTorch's own tools and by replaying it."""
import json
import os
import pickle
import tempfile
import unittest

from common import EXAMPLE, ROOT, command

try:
    import torch
except ImportError:
    torch = None

JOBS = ((EXAMPLE, "--batch", "4"), (EXAMPLE, "--batch", "4", "--alloc-conf", "expandable_segments:True"),
        (str(ROOT / "examples" / "gpt2.pt2"), "--batch", "1", "--checkpoint", "--alloc-conf", "max_split_size_mb:32"),
        (str(ROOT / "tests" / "data" / "configs" / "llama.json"), "--parallel", "fsdp2:4", "--batch", "2"),
        (EXAMPLE, "--batch", "3000", "--gpu", "t4"))  # does not fit


def written(folder, *job):
    path = os.path.join(folder, "out.pickle")
    told = command("explain", *job, "--snapshot", path, "--json")
    with open(path, "rb") as file:
        return path, pickle.load(file), told["estimate"]["memory"]


class Snapshots(unittest.TestCase):
    def test_replaying_gives_the_reports_peaks(self):
        for job in JOBS:
            with tempfile.TemporaryDirectory() as folder:
                _, snapshot, memory = written(folder, *job)
                self.assertEqual(os.listdir(folder), ["out.pickle"])
            allocated = reserved = most_allocated = most_reserved = 0
            live = {}
            for event in snapshot["device_traces"][0]:
                kind, address, size = event["action"], event["addr"], event["size"]
                self.assertLess(address, 2 ** 53)  # the viewer's numbers
                if kind == "alloc":
                    self.assertNotIn(address, live)
                    live[address] = size
                    allocated += size
                    self.assertTrue(event["frames"][0]["name"])
                elif kind == "free_completed":
                    self.assertEqual(live.pop(address), size)
                    allocated -= size
                elif kind in ("segment_alloc", "segment_map"):
                    reserved += size
                elif kind in ("segment_free", "segment_unmap"):
                    reserved -= size
                else:
                    self.assertEqual(kind, "free_requested")
                most_allocated, most_reserved = max(most_allocated, allocated), max(most_reserved, reserved)
            self.assertEqual((most_allocated, most_reserved), (memory["allocated_bytes"], memory["reserved_bytes"]), job)
            segments = snapshot["segments"]
            self.assertEqual(sum(s["total_size"] for s in segments), reserved)
            self.assertEqual(sum(s["active_size"] for s in segments), allocated)
            held = {b["address"]: b["size"] for s in segments for b in s["blocks"] if b["state"] == "active_allocated"}
            self.assertEqual(held, live)
            for s in segments:
                self.assertEqual(sum(b["size"] for b in s["blocks"]), s["total_size"])
            names = [a["name"] for a in snapshot["external_annotations"] if a["stage"] == "START"]
            self.assertEqual(names[0], "step 1, load")
            self.assertIn("step 3, backward", names)

    @unittest.skipIf(torch is None, "no PyTorch")
    def test_pytorchs_tools_open_it(self):
        from torch.cuda import _memory_viz
        with tempfile.TemporaryDirectory() as folder:
            path, snapshot, memory = written(folder, *JOBS[2])
            os.unlink(path)
        self.assertIn("segments: %d" % len(snapshot["segments"]), _memory_viz.segsum(snapshot))
        self.assertIn("entries", _memory_viz.trace(snapshot))
        for draw in (_memory_viz.segments, _memory_viz.memory):
            self.assertTrue("AddmmBackward0" in draw(snapshot, format_flamegraph=lambda lines: lines))
        page = _memory_viz.trace_plot(snapshot)
        self.assertIn("<script", page)
        self.assertGreater(len(page), 100000)
        json.dumps(snapshot)  # plain values alone

    def test_an_old_file_stays_where_it_cannot_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            missing = os.path.join(folder, "none", "out.pickle")
            code = os.spawnv(os.P_WAIT, os.environ.get("PLIMSOLL", str(ROOT / "build" / "plimsoll")),
                             ["plimsoll", "explain", EXAMPLE, "--snapshot", missing])
            self.assertNotEqual(code, 0)
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    unittest.main()
