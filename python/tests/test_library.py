"""The library: found, loaded, its tables, its structs byte for byte, its errors. Without PyTorch."""
import ctypes
import ctypes.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import plimsoll
from common import EXAMPLE, ROOT, command
from plimsoll import _library


class Finding(unittest.TestCase):
    def ask(self, code, folder=None, **environment):
        env = {k: v for k, v in os.environ.items() if k != "PLIMSOLL_LIBRARY"}
        env.update(environment)
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=folder)

    def test_named_by_file_and_by_folder(self):
        path = os.path.realpath(plimsoll.library_path())
        for named in (path, os.path.dirname(plimsoll.library_path())):
            done = self.ask("import plimsoll; print(plimsoll.library_path())", PLIMSOLL_LIBRARY=named)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(os.path.realpath(done.stdout.strip()), path)

    def test_a_wrong_name_is_reported(self):
        done = self.ask("import plimsoll\ntry: plimsoll.gpus()\nexcept plimsoll.MissingError as e: print(e.code, e)",
                        PLIMSOLL_LIBRARY="/no/such/library.so")
        self.assertIn("4 libplimsoll: libplimsoll was not found", done.stdout)
        self.assertIn("/no/such/library.so", done.stdout)

    def test_another_library_is_no_plimsoll(self):
        done = self.ask("import plimsoll\ntry: plimsoll.gpus()\nexcept plimsoll.MissingError as e: print(e)",
                        PLIMSOLL_LIBRARY=ctypes.util.find_library("c") or "libc.so.6")
        self.assertRegex(done.stdout, "no pl_version|was not found")

    def test_bundled_is_found_beside_the_package(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.dirname(plimsoll.__file__), os.path.join(folder, "plimsoll"))
            bundled = os.path.join(folder, "plimsoll", _library.file_names()[0])
            shutil.copy(os.path.realpath(plimsoll.library_path()), bundled)
            done = self.ask("import plimsoll; print(plimsoll.library_path())", folder, PYTHONPATH=folder)
            self.assertEqual(done.stdout.strip(), bundled, done.stderr)

    def test_importing_needs_no_torch(self):
        done = self.ask("import plimsoll, sys; assert 'torch' not in sys.modules; plimsoll.estimate(%r); "
                        "assert 'torch' not in sys.modules; print('none')" % EXAMPLE,
                        PLIMSOLL_LIBRARY=plimsoll.library_path())
        self.assertEqual(done.stdout.strip(), "none", done.stderr)


class Layout(unittest.TestCase):
    """ctypes' structs are those that a C compiler makes of the header."""

    def test_structs_are_the_headers(self):
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not compiler:
            self.skipTest("no C compiler")
        lines = ["#include <plimsoll/plimsoll.h>", "#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
        wanted = {}
        for struct in _library.STRUCTS:
            c = struct.c_name
            wanted[c] = [ctypes.sizeof(struct)]
            lines.append('printf("%s %%zu 0\\n", sizeof(%s));' % (c, c))
            for name, _ in struct._fields_:
                field = getattr(struct, name)
                wanted["%s.%s" % (c, name)] = [field.offset, field.size]
                lines.append('printf("%s.%s %%zu %%zu\\n", offsetof(%s, %s), sizeof(((%s *)0)->%s));' % (c, name, c, name, c, name))
        for count, value in (("PL_CONTEXT + 1", len(_library.KINDS)), ("PL_FRAGMENTATION", len(_library.MOMENT_KINDS)),
                             ("PL_PHASE_OPTIMIZER + 1", len(_library.PHASES)), ("PL_TENSOR + 1", len(_library.COUNTERS)),
                             ("PL_FAMILY_RNN + 1", len(_library.FAMILIES)), ("PL_LEVEL_HIGH + 1", len(_library.LEVELS)),
                             ("PL_MPS + 1", len(_library.SHARINGS)), ("PL_UNKNOWN", _library.UNKNOWN),
                             ("PL_COLUMN_KIND", _library.COLUMN_KIND)):
            wanted[count.replace(" ", "")] = [value]
            lines.append('printf("%s %%d 0\\n", (int)(%s));' % (count.replace(" ", ""), count))
        lines += ["return 0; }"]
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
            with open(source, "w") as out:
                out.write("\n".join(lines) + "\n")
            env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
            done = subprocess.run([compiler, "-std=c11", "-I", str(ROOT / "include"), source, "-o", program],
                                  capture_output=True, text=True, env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = subprocess.run([program], capture_output=True, text=True, check=True, env=env).stdout
        for line in said.splitlines():
            name, first, second = line.split()
            self.assertEqual(wanted.pop(name), [int(first), int(second)][:2 if "." in name else 1], name)
        self.assertEqual(wanted, {})

    def test_functions_are_the_headers(self):
        header = (ROOT / "include" / "plimsoll" / "plimsoll.h").read_text()
        for name, (_, arguments) in _library.FUNCTIONS.items():
            at = header.index(" " + name + "(") if " " + name + "(" in header else header.index("*" + name + "(")
            inside = header[header.index("(", at) + 1:header.index(")", at)]
            count = 0 if inside.strip() == "void" else inside.count(",") + 1
            self.assertEqual(count, len(arguments), name)

    def test_names_are_the_librarys(self):
        lib = _library.library()
        self.assertEqual([lib.pl_kind_name(i).decode() for i in range(len(_library.KINDS))], list(_library.KINDS))
        for names, name in ((_library.PHASES, lib.pl_phase_name), (_library.COUNTERS, lib.pl_counter_name),
                            (_library.FAMILIES, lib.pl_family_name), (_library.LEVELS, lib.pl_level_name),
                            (_library.SHARINGS, lib.pl_sharing_name)):
            self.assertEqual([name(i).decode() for i in range(len(names))], list(names))
            self.assertIsNone(name(len(names)))

    def test_levels_are_paper_3s(self):
        level = _library.library().pl_level_of
        for family, counter, value, wanted in ((0, 0, 19.9, 0), (0, 0, 20, 1), (0, 0, 70, 2), (1, 0, 89.9, 1), (1, 2, 90, 2),
                                               (2, 1, 30, 1), (2, 1, 40, 2), (2, 2, 29.9, 0), (3, 1, 30, 2), (2, 0, 0, 0),
                                               (1, 3, 50, -1), (4, 0, 50, -1), (0, 0, float("nan"), -1)):
            self.assertEqual(level(family, counter, value), wanted, (family, counter, value))


class Tables(unittest.TestCase):
    def test_gpus(self):
        rows = command("gpus", "--json")["gpus"]
        self.assertEqual([(g.name, g.capacity_bytes, g.calibrated, g.fp16_tflops) for g in plimsoll.gpus()],
                         [(r["name"], r["capacity_bytes"], r["calibrated"], r["fp16_tflops"]) for r in rows])
        self.assertTrue(all(0 < g.usable_bytes <= g.capacity_bytes for g in plimsoll.gpus()))

    def test_cards_of_ones_own(self):
        row = "mine\tMine\tours\t12345\t8.6\t28\t1536\t-\t360\t12.7\t12.7\t25.4\t25.4\tgeneral\tno\tmeasured"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cards.tsv")
            with open(path, "w", encoding="utf-8") as file:
                file.write("# ours\n" + row + "\n")
            self.assertEqual([(g.name, g.capacity_bytes) for g in plimsoll.gpus(path)], [("mine", 12345 << 20)])
            report = plimsoll.estimate(EXAMPLE, gpu="NVIDIA Ours", gpus=path)
            self.assertEqual((report.gpu.name, report.gpu.capacity_bytes, report.gpu.calibrated), ("mine", 12345 << 20, False))
            self.assertEqual(plimsoll.estimate(EXAMPLE, gpu="h200", gpus=path).gpu.name, "h200")
            with open(path, "a", encoding="utf-8") as file:
                file.write(row.replace("mine", "m2").replace("8.6", "eight"))
            with self.assertRaises(plimsoll.InputError) as caught:
                plimsoll.gpus(path)
            self.assertEqual((caught.exception.where, "cc should be" in caught.exception.message), (path + ":3", True))
        with self.assertRaises(plimsoll.InputError):
            plimsoll.estimate(EXAMPLE, gpus=path)
        with self.assertRaises(plimsoll.UsageError):
            plimsoll.gpus(3)

    def test_a_card_with_other_memory(self):
        whole = plimsoll.estimate(EXAMPLE, gpu="NVIDIA A100-SXM4-80GB")
        half = plimsoll.estimate(EXAMPLE, gpu="a100-80gb,memory=1GiB")
        self.assertEqual((half.gpu.name, half.gpu.capacity_bytes), ("a100-80gb,memory=1GiB", 1 << 30))
        self.assertIn("1 GiB of memory, as given", str(half))
        self.assertEqual((whole.gpu.name, whole.peak_bytes, whole.fits, half.fits), ("a100-80gb", half.peak_bytes, True, False))
        self.assertEqual(plimsoll.collocate(half, half).gpu.name, "a100-80gb,memory=1GiB")
        with self.assertRaises(plimsoll.UsageError) as caught:
            plimsoll.estimate(EXAMPLE, gpu="a100")
        self.assertIn("could be a100-40gb, a100-64gb or a100-80gb", caught.exception.message)

    def test_names_of_others(self):
        for ours, others in (("bf16", ("bfloat16", "torch.bfloat16", "BF16-true")), ("amp-fp16", ("16-mixed",)), ("fp16", ("half",))):
            wanted = plimsoll.estimate(EXAMPLE, precision=ours)
            for name in others:
                self.assertEqual(plimsoll.estimate(EXAMPLE, precision=name).peak_bytes, wanted.peak_bytes, name)
        self.assertEqual(plimsoll.estimate(EXAMPLE, optimizer="adamw_torch_fused").peak_bytes,
                         plimsoll.estimate(EXAMPLE, optimizer="adamw-fused").peak_bytes)
        for wrong, part in ((dict(optimizer="paged_adamw_8bit"), "the nearest is"), (dict(precision="float64"), "the nearest is fp32"),
                            (dict(precision=16), "a string")):
            with self.assertRaises(plimsoll.UsageError) as caught:
                plimsoll.estimate(EXAMPLE, **wrong)
            self.assertIn(part, caught.exception.message)
            self.assertEqual(caught.exception.where, list(wrong)[0])

    def test_optimizers_and_estimators(self):
        self.assertIn("adamw", plimsoll.optimizers())
        names = {e.name: e for e in plimsoll.estimators()}
        self.assertEqual(names["hybrid"].kind, "simulation")
        self.assertEqual(names["horus"].kind, "formula")
        self.assertFalse(names["random-forest"].needs_graph)


class Errors(unittest.TestCase):
    def test_a_truncated_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cut.pt2")
            with open(EXAMPLE, "rb") as whole, open(path, "wb") as out:
                out.write(whole.read(1000))
            with self.assertRaises(plimsoll.InputError) as caught:
                plimsoll.estimate(path)
            self.assertEqual(caught.exception.code, 3)
            self.assertIn("cut.pt2", caught.exception.where)
            self.assertIn(path, str(caught.exception))

    def test_broken_json_has_a_place(self):
        with self.assertRaises(plimsoll.InputError) as caught:
            plimsoll.estimate(b'{"graph_module": {"graph": [1, 2')
        self.assertGreater(caught.exception.position, 0)
        self.assertIn("at byte %d: " % caught.exception.position, str(caught.exception))

    def test_nowhere_and_folders(self):
        for path in ("/no/such/model.pt2", tempfile.gettempdir()):
            with self.assertRaises(plimsoll.InputError):
                plimsoll.estimate(path)

    def test_settings(self):
        for wrong in (dict(gpu="h20x"), dict(optimizer="adan"), dict(precision="fp12"), dict(loss="hinge"), dict(parallel="tp:4"),
                      dict(batch=0), dict(batch="many"), dict(accumulate=4097), dict(alloc_conf="no_such:1"), dict(seq=4),
                      dict(estimator="oracle"), dict(loss=len), dict(host_speed=0), dict(host_speed="fast"), dict(copy_gbps=0)):
            with self.subTest(wrong), self.assertRaises(plimsoll.UsageError) as caught:
                plimsoll.estimate(EXAMPLE, **wrong)
            self.assertEqual(caught.exception.where, list(wrong)[0], caught.exception)
        with self.assertRaises(plimsoll.UsageError):
            plimsoll.estimate(12)

    def test_a_limit_of_memory(self):
        with self.assertRaises(plimsoll.LimitError):
            plimsoll.load(EXAMPLE, memory_limit=4096)

    def test_they_can_be_pickled(self):
        import pickle
        again = pickle.loads(pickle.dumps(plimsoll.InputError("bad", "file", 3)))
        self.assertEqual((str(again), again.position), ("file: at byte 3: bad", 3))


class Locales(unittest.TestCase):
    def test_a_decimal_comma_changes_nothing(self):
        code = """
import locale, sys
import plimsoll
example, mlp, lstm = sys.argv[1:]
def ask():
    reports = [plimsoll.estimate(example), plimsoll.estimate(mlp, host_speed=1.5, copy_gbps=12.5),
               plimsoll.estimate(lstm, alloc_conf="garbage_collection_threshold:0.8")]
    for report in reports:
        del report.json["elapsed_us"]
    pair = plimsoll.collocate(example, mlp)
    return [report.json for report in reports], [pair.slowdown, pair.gain]
before = ask()
locale.setlocale(locale.LC_ALL, "comma")
assert locale.localeconv()["decimal_point"] == ",", locale.localeconv()
assert ask() == before
print("alike")
"""
        examples = ROOT / "examples"
        with tempfile.TemporaryDirectory() as folder:
            env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
            made = subprocess.run(["sh", str(ROOT / "tests" / "comma_locale.sh"), folder], capture_output=True, text=True, env=env)
            if made.returncode:
                self.skipTest(made.stderr.strip())
            done = subprocess.run([sys.executable, "-c", code, EXAMPLE, str(examples / "mlp.yaml"), str(examples / "lstm.yaml")],
                                  capture_output=True, text=True, env=dict(os.environ, LOCPATH=folder))
        self.assertEqual(done.stdout.strip(), "alike", done.stderr)


class Threads(unittest.TestCase):
    def test_one_model_many_threads(self):
        model = plimsoll.load(EXAMPLE)
        batches, peaks = [1, 8, 32, 64, 128, 256], {}

        def ask(batch):
            peaks[batch] = model.estimate(batch=batch).peak_bytes

        threads = [threading.Thread(target=ask, args=(b,)) for b in batches]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(peaks, {b: model.estimate(batch=b).peak_bytes for b in batches})
