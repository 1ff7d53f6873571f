"""Reports: the command's figures, text, notebooks' cards, files; fits and max_batch on files. Without PyTorch."""
import json
import os
import pickle
import tempfile
import unittest
from html.parser import HTMLParser
from xml.etree import ElementTree

import plimsoll
from common import EXAMPLE, command


class Figures(unittest.TestCase):
    def test_they_are_the_commands(self):
        told = command("estimate", EXAMPLE, "--batch", "16", "--gpu", "t4", "--precision", "amp-fp16", "--optimizer", "sgd-momentum",
                       "--json")
        report = plimsoll.estimate(EXAMPLE, batch=16, gpu="t4", precision="amp-fp16", optimizer="sgd-momentum")
        said = dict(report.json)
        self.assertEqual(said.pop("via"), "file")
        for j in (said, told):
            j.pop("elapsed_us")
        self.assertEqual(said, told)
        for name, value in told["memory"].items():
            self.assertEqual(getattr(report, name), value, name)
        self.assertEqual(sum(report.breakdown.values()), report.peak_bytes)
        self.assertLessEqual(report.low_bytes, report.peak_bytes)
        self.assertEqual((report.batch, report.parameters, report.fits), (16, 11689512, True))

    def test_bytes_and_paths_are_alike(self):
        from pathlib import Path
        content = Path(EXAMPLE).read_bytes()
        peaks = {plimsoll.estimate(m).peak_bytes for m in (EXAMPLE, Path(EXAMPLE), content, bytearray(content), memoryview(content))}
        self.assertEqual(len(peaks), 1)

    def test_every_setting_arrives(self):
        plain = plimsoll.estimate(EXAMPLE)
        for setting in (dict(batch=33), dict(precision="amp-bf16"), dict(optimizer="sgd"), dict(gpu="t4"), dict(channels_last=True),
                        dict(parallel="ddp:8"), dict(loss="mse"), dict(alloc_conf="expandable_segments:True"),
                        dict(estimator="horus"), dict(cudnn_benchmark=True)):
            with self.subTest(setting):
                report = plimsoll.estimate(EXAMPLE, **setting)
                self.assertNotEqual((report.peak_bytes, report.allocated_bytes), (plain.peak_bytes, plain.allocated_bytes))
        self.assertEqual(plimsoll.estimate(EXAMPLE, precision="AMP-BF16", gpu="T4").settings["gpu"], "T4")

    def test_an_estimator_without_a_timeline(self):
        report = plimsoll.estimate(EXAMPLE, estimator="horus")
        self.assertIsNone(report.timeline)
        self.assertIn("as estimator horus has it", str(report))
        self.assertNotIn("<svg", report._repr_html_())
        with self.assertRaises(plimsoll.UsageError):
            report.save_timeline("t.svg")

    def test_what_is_alive(self):
        report = plimsoll.estimate(EXAMPLE)
        in_allocator = sum(report.breakdown[k] for k in list(report.breakdown)[:7])
        bytes_asked_for = sum(a.bytes for a in report.alive)  # the allocator rounds them up
        self.assertLessEqual(bytes_asked_for, in_allocator)
        self.assertGreater(bytes_asked_for, 0.97 * in_allocator)
        self.assertEqual(report.alive, sorted(report.alive, key=lambda a: -a.bytes))


class Use(unittest.TestCase):
    """A step's time, and how busy the card is."""

    def test_it_is_the_commands(self):
        told = command("estimate", EXAMPLE, "--batch", "64", "--host-speed", "2", "--json")
        report = plimsoll.estimate(EXAMPLE, batch=64, host_speed=2)
        self.assertEqual((report.compute, report.json["utilization"]), (told["compute"], told["utilization"]))
        for name in ("step_ms", "step_ms_low", "step_ms_high", "device_ms", "host_ms", "launches", "flops_per_step"):
            self.assertAlmostEqual(getattr(report, name), told["compute"][name], delta=1e-4 * told["compute"][name], msg=name)
        self.assertEqual(list(report.utilization), ["smact", "smocc", "drama", "tensor"])
        for name, figure in report.utilization.items():
            self.assertTrue(0 <= figure.low <= figure.value <= figure.high <= 100, name)
            self.assertAlmostEqual(figure.value, told["utilization"][name], delta=1e-3, msg=name)
        self.assertEqual(report.levels, told["utilization"]["levels"])
        self.assertEqual((report.family, report.bound in ("host", "device")), ("cnn", True))
        self.assertGreater(report.flops["backward"], report.flops["forward"])
        slow, ready = (plimsoll.estimate(EXAMPLE, batch=64, copy_gbps=rate).step_ms for rate in (0.5, float("inf")))
        self.assertGreater(slow, ready)

    def test_times_add_up(self):
        report = plimsoll.estimate(EXAMPLE)
        self.assertTrue(report.times and all(t.device_ms >= 0 and t.host_ms >= 0 for t in report.times))
        modules = {t.module for t in report.times}
        self.assertIn("layer1.0.conv1", modules)
        told = command("explain", EXAMPLE, "--time", "--json")
        self.assertAlmostEqual(sum(t.device_ms for t in report.times), sum(p["device_ms"] for p in told["phases"]), places=3)
        self.assertEqual(len(pickle.loads(pickle.dumps(report)).times), len(report.times))

    def test_who_does_not_know_says_so(self):
        report = plimsoll.estimate(EXAMPLE, estimator="horus")
        self.assertIsNone(report.step_ms)
        self.assertIsNone(report.times)
        self.assertEqual(report.utilization["smact"], (None, None, None))
        self.assertIsNone(report.levels["smact"])
        self.assertNotIn("step ", str(report))


class Collocation(unittest.TestCase):
    def test_it_is_the_commands(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for batch in (32, 64):
                paths.append(os.path.join(folder, "%d.json" % batch))
                with open(paths[-1], "w") as out:
                    json.dump(command("estimate", EXAMPLE, "--batch", str(batch), "--json"), out)
            told = command("collocate", *paths, "--sharing", "mps", "--json")
            reports = [plimsoll.estimate(EXAMPLE, batch=batch) for batch in (32, 64)]
            for jobs in (paths, reports, [reports[0].json, paths[1]]):
                pair = plimsoll.collocate(*jobs, sharing="mps")
                self.assertEqual((pair.fits, pair.needed_bytes, pair.sharing, pair.gpu.name, pair.worth_it, pair.advice),
                                 (told["fits"], told["needed_bytes"], "mps", "h200", told["worth_it"], told["advice"]))
                for i in range(2):
                    self.assertAlmostEqual(pair.slowdown[i].value, told["jobs"][i]["slowdown"], places=3)
            self.assertIn(told["advice"], str(pair))
            # A model is estimated first.
            same = plimsoll.collocate(EXAMPLE, paths[0])
            self.assertAlmostEqual(same.slowdown[0].value, same.slowdown[1].value, places=4)
            with open(paths[0]) as whole, open(os.path.join(folder, "cut.json"), "w") as out:
                out.write(whole.read()[:200])
            with self.assertRaises(plimsoll.InputError) as caught:
                plimsoll.collocate(os.path.join(folder, "cut.json"), paths[0])
            self.assertIn("cut.json", str(caught.exception))

    def test_what_makes_no_sense(self):
        report = plimsoll.estimate(EXAMPLE)
        with self.assertRaises(plimsoll.UsageError):
            plimsoll.collocate(report, report, sharing="luck")
        with self.assertRaises(plimsoll.UsageError):
            plimsoll.collocate(report, report, gpu="t4")  # estimated for another
        with self.assertRaises(plimsoll.UsageError):
            plimsoll.collocate(report, report, gpu="t5")
        with self.assertRaises(plimsoll.InputError):
            plimsoll.collocate(report, {"memory": 3})
        with self.assertRaises(plimsoll.InputError):
            plimsoll.collocate(report, "/no/such/file.json")
        with self.assertRaises(plimsoll.InputError):
            plimsoll.collocate(report, plimsoll.estimate(EXAMPLE, estimator="horus"))  # no times


class Text(unittest.TestCase):
    def test_it_is_the_commands(self):
        report = plimsoll.estimate(EXAMPLE, gpu="a100-40gb")
        told = command("estimate", EXAMPLE, "--gpu", "a100-40gb")
        self.assertEqual(repr(report), told.rstrip("\n"))
        self.assertIn("resnet18: 11.7 M parameters", repr(report))

    def test_every_line_of_the_job_is_the_commands(self):
        for settings, words in ((dict(gpu="t4", batch=512), ()), (dict(gpu="t4", batch=512, risk=0.2), ("--risk", "20")),
                                (dict(gpu="t4", batch=4000, risk=0.005), ("--risk", "0.5")), (dict(gpu="t4", estimator="horus"), ("-e", "horus")),
                                (dict(parallel="fsdp2:8:2:mp"), ("--parallel", "fsdp2:8:2:mp")), (dict(parallel="ddp:4"), ("--parallel", "ddp:4")),
                                (dict(train="head", precision="bf16"), ("--train", "head", "--precision", "bf16")),
                                (dict(alloc_conf="per_process_memory_fraction:0.01"), ("--alloc-conf", "per_process_memory_fraction:0.01"))):
            with self.subTest(settings):
                more = [part for key in ("gpu", "batch") if key in settings for part in ("--" + key, str(settings[key]))]
                self.assertEqual(repr(plimsoll.estimate(EXAMPLE, **settings)), command("estimate", EXAMPLE, *more, *words).rstrip("\n"))

    def test_too_small_a_card(self):
        report = plimsoll.estimate(EXAMPLE, gpu="t4", batch=4000)
        self.assertFalse(report.fits)
        self.assertLess(report.headroom_bytes, 0)
        self.assertIn("does not fit NVIDIA T4", str(report))

    def test_names_are_cleaned(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a\x1b[31m<b>&.pt2")
            with open(EXAMPLE, "rb") as whole, open(path, "wb") as out:
                out.write(whole.read())
            report = plimsoll.estimate(path)
        self.assertNotIn("\x1b", str(report))
        for markup in (report._repr_html_(), report.timeline_svg()):
            self.assertNotIn("<b>", markup)
            self.assertNotIn("\x1b", markup)
            self.assertIn("&#60;b&#62;&#38;", markup)


class Pictures(unittest.TestCase):
    def test_the_card_is_well_formed(self):
        report = plimsoll.estimate(EXAMPLE, gpu="t4", batch=320)
        html = report._repr_html_()
        root = ElementTree.fromstring(html)  # it is XML too
        self.assertEqual(root.tag, "div")
        svg = "{http://www.w3.org/2000/svg}"
        self.assertEqual(len(root.findall(".//%ssvg" % svg)), 1)
        seen = "".join(root.itertext())
        for words in ("at the peak", "activations", "14.78 GiB usable of NVIDIA T4", "step 3", "warning: "):
            self.assertIn(words, seen)
        self.assertLess(len(html), 400000)
        HTMLParser().feed(html)

    def test_the_picture_shows_the_peak(self):
        report = plimsoll.estimate(EXAMPLE, batch=64)
        root = ElementTree.fromstring(report.timeline_svg())
        texts = ["".join(t.itertext()) for t in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertTrue(any(t.startswith("peak %.2f GiB" % (report.peak_bytes / 2**30)) for t in texts), texts)
        dot = root.find("{http://www.w3.org/2000/svg}circle")
        line = [p for p in root.iter("{http://www.w3.org/2000/svg}path") if p.get("stroke-width") == "1.8"][0]
        highest = min(float(part.split("H")[0]) for part in line.get("d").replace("M", "V").split("V")[2:])
        self.assertAlmostEqual(float(dot.get("cy")), highest, delta=0.2)

    def test_no_title_is_cut_and_no_label_covers_another(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "name-" * 36 + ".pt2")
            with open(EXAMPLE, "rb") as whole, open(path, "wb") as out:
                out.write(whole.read())
            report = plimsoll.estimate(path, gpu="rtxpro6000-blackwell", accumulate=4, checkpoint=True)
        for size in ((), (700, 400)):
            root = ElementTree.fromstring(report.timeline_svg(*size))
            texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
            self.assertEqual(float(root.get("width")), size[0] if size else 1200)
            said = "".join(t.text for t in texts).replace(" ", "")
            self.assertIn("name-" * 36 + ":GPUmemoryoverthefirsttrainingsteps", said)
            self.assertIn("onNVIDIARTXPRO6000Blackwell,94.72GiBusable", said)
            for text in texts:
                self.assertLess(0.56 * float(text.get("font-size")) * len(text.text), float(root.get("width")) - 84)
            usable, peak = (next(float(t.get("y")) for t in texts if t.text.startswith(word)) for word in ("\u2191", "peak "))
            self.assertGreater(abs(peak - usable), 11)

    def test_the_numbers_are_the_commands(self):
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = os.path.join(folder, "a.csv"), os.path.join(folder, "b.csv")
            report = plimsoll.estimate(EXAMPLE)
            report.save_timeline(ours)
            command("estimate", EXAMPLE, "--timeline", theirs)
            with open(ours, "rb") as a, open(theirs, "rb") as b:
                self.assertTrue(a.read() == b.read())
            report.save_timeline(os.path.join(folder, "t.svg"))
            self.assertGreater(os.path.getsize(os.path.join(folder, "t.svg")), 10000)
            with self.assertRaises(plimsoll.UsageError):
                report.save_timeline(os.path.join(folder, "t.png"))
        self.assertEqual(max(m.reserved for m in report.timeline), report.reserved_bytes)
        self.assertEqual(max(m.allocated for m in report.timeline), report.allocated_bytes)

    def test_a_pickled_report_is_whole(self):
        report = plimsoll.estimate(EXAMPLE, batch=4)
        again = pickle.loads(pickle.dumps(report))
        self.assertEqual(repr(again), repr(report))
        self.assertEqual(again.timeline, report.timeline)
        self.assertEqual(again._repr_html_(), report._repr_html_())


class Decisions(unittest.TestCase):
    def test_fits_is_a_condition(self):
        self.assertTrue(plimsoll.fits(EXAMPLE, gpu="h200"))
        no = plimsoll.fits(EXAMPLE, gpu="t4", batch=4000)
        self.assertFalse(no)
        self.assertFalse(no.report.fits)
        self.assertEqual(no.verdict, "does not fit")
        self.assertIn("does not fit NVIDIA T4", repr(no))

    def test_three_words(self):
        told = command("check", EXAMPLE, "--gpu", "t4", "--batch", "480", "--risk", "10", "--json", wanted=11)
        maybe = plimsoll.fits(EXAMPLE, gpu="t4", batch=480, risk=0.1)
        self.assertFalse(maybe)
        self.assertEqual(maybe.verdict, "may not fit")
        for name in ("verdict", "risk", "usable_bytes", "upper_bytes", "oom_probability", "headroom_bytes"):
            self.assertEqual(*(round(x, 6) if isinstance(x, float) else x for x in (getattr(maybe.report, name), told[name])), name)
        self.assertGreater(maybe.report.oom_probability, 0.1)
        self.assertTrue(plimsoll.fits(EXAMPLE, gpu="t4", batch=480, risk=0.5))
        for wrong in (0, 0.004, 0.6, 5, float("nan"), "5"):
            with self.assertRaises(plimsoll.UsageError):
                plimsoll.estimate(EXAMPLE, risk=wrong)

    def test_the_largest_batch(self):
        best = plimsoll.max_batch(EXAMPLE, gpu="t4")
        self.assertEqual(best.batch, command("fit", EXAMPLE, "--gpu", "t4", "--json")["largest"]["batch"])
        self.assertEqual(best.report.batch, best.batch)
        self.assertEqual(best.high_bytes, best.report.high_bytes)
        self.assertTrue(plimsoll.fits(EXAMPLE, gpu="t4", batch=int(best)))
        self.assertFalse(plimsoll.fits(EXAMPLE, gpu="t4", batch=best.batch + 1))
        self.assertIn("largest batch %d" % best.batch, repr(best))

    def test_up_to_the_most(self):
        best = plimsoll.max_batch(EXAMPLE, gpu="t4", most=8)
        self.assertEqual((best.batch, best.high_bytes_above), (8, None))

    def test_searching_with_few_questions(self):
        """What max_batch does where every batch is a capture: any line, and one with steps in it."""
        from plimsoll import _api

        class Said:
            def __init__(self, high, room):
                self.peak_bytes = self.upper_bytes = high
                self.usable_bytes = room
                self.fits, self.via, self.warnings = high <= room, "trace", []
                self.gpu = type("Gpu", (), dict(title="card"))()

        for first in (1, 4, 1000):
            for base, each, room in ((600, 7, 10000), (600, 1, 10000), (10, 3000, 10000), (9990, 11, 10000), (20000, 1, 10000)):
                for steps in (1, 64):
                    asked = []

                    def ask(batch):
                        asked.append(batch)
                        return Said((base + each * batch) // steps * steps, room)

                    best = _api._search(ask, first, 65536)
                    wanted = max([b for b in range(1, 12000) if (base + each * b) // steps * steps <= room], default=0)
                    self.assertEqual(best.batch, wanted, (first, base, each, steps))
                    self.assertLessEqual(len(asked), 26)
                    self.assertEqual(len(asked), len(set(asked)))
                    if steps == 1:
                        self.assertLessEqual(len(asked), 12, (first, base, each))
