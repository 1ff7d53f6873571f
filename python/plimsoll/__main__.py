"""python -m plimsoll [OPTIONS] SCRIPT [ARGS...]: what a training script will take of a GPU, without one.

The script is run as Python would run it, unchanged, but under fake tensors (capture.Recorder) and only up
to its first optimizer steps; what it allocated till then is replayed by the library. Exit codes are the
command's: 0, 2 wrong usage, 3 a script that cannot be understood or a file that cannot be written, 4 a thing
missing on the machine.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import traceback
from typing import Any, List, Optional, Tuple

from . import Error, Gpu, InputError, MissingError, Model, Report, UsageError, __version__
from ._api import _check
from ._launch import Launch, parse
from ._model import DEFAULTS
from ._scratch import Scratch

OPTIONS = argparse.ArgumentParser(
    prog="python -m plimsoll", usage="python -m plimsoll [OPTIONS] [torchrun ... | accelerate launch ...] SCRIPT [ARGS...]",
    description="Runs a training script up to its first optimizer step under fake tensors, with no GPU, and prints what "
                "the job will take of one. SCRIPT and ARGS are as Python takes them; options come before.",
    epilog="The plimsoll command answers all else: files, configurations, the largest batch.")
OPTIONS.add_argument("-g", "--gpu", default=DEFAULTS["gpu"], help="the card (default: %(default)s)")
OPTIONS.add_argument("-e", "--estimator", default=DEFAULTS["estimator"], help="how the peak is found (default: %(default)s)")
OPTIONS.add_argument("-t", "--timeline", metavar="FILE", help="write the memory of the steps to FILE, a picture (.svg) or "
                     "numbers (.csv)")
OPTIONS.add_argument("--steps", type=int, metavar="N", help="optimizer steps the script is run for (default: 2, or as many as it "
                     "makes; a peak is often in the second)")
OPTIONS.add_argument("--alloc-conf", metavar="S", help="PYTORCH_CUDA_ALLOC_CONF of the job (default: this environment's)")
OPTIONS.add_argument("--risk", type=float, metavar="P", default=2.5, help="chance of an out-of-memory that is accepted, in percent, 0.5 to 50 (default: "
                     "%(default)s)")
OPTIONS.add_argument("--world", type=int, metavar="N", help="ranks of a script of several processes (default: as torchrun's or accelerate's "
                     "arguments or the script say)")
OPTIONS.add_argument("--rank", type=int, metavar="R", help="which of them is run, from 0 (default: 0)")
OPTIONS.add_argument("-j", "--json", action="store_true", help="print one JSON object instead of text")
OPTIONS.add_argument("-V", "--version", action="version", version="plimsoll " + __version__)
OPTIONS.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module, as python -m has it")
OPTIONS.add_argument("script", metavar="SCRIPT", help="the training script; or torchrun, or accelerate launch, with their arguments and the script")
OPTIONS.add_argument("args", metavar="ARGS", nargs=argparse.REMAINDER, help="its arguments")


def _capture() -> Any:
    try:
        import torch  # noqa: F401
    except ImportError as problem:
        raise MissingError("the script is run with PyTorch, which this Python does not have: %s" % problem,
                           sys.executable) from problem
    from . import capture
    return capture


def _place(problem: BaseException, script: str) -> str:
    """Where the script's own code was when it raised: "train.py, line 12"."""
    frames = [f for f in traceback.extract_tb(problem.__traceback__) if os.path.abspath(f.filename) == os.path.abspath(script)]
    return "%s, line %s" % (os.path.basename(script), frames[-1].lineno) if frames else os.path.basename(script)


def record(launch: Launch, steps: Optional[int], gpu: Gpu) -> Tuple[bytes, List[str]]:
    """The trace of a script's first optimizer steps on that card, and what to know of it."""
    script = launch.script
    if not launch.module and not os.path.isfile(script):
        raise InputError("no such file", script)
    capture = _capture()
    name = os.path.basename(script)
    recorder = capture.Recorder(capability=gpu.compute_capability, memory=gpu.capacity_bytes, device_name=gpu.title,
                                name=os.path.splitext(name)[0], **({} if steps is None else {"steps": steps}))
    from ._ranks import Ranks
    from ._saves import Saves
    scratch = Scratch([os.path.dirname(os.path.abspath(script)), os.getcwd()])
    argv, path = sys.argv, list(sys.path)
    os.environ.update(launch.environment())
    raised: Optional[BaseException] = None
    try:
        # What the script prints is talk, and goes where talk goes.
        with contextlib.redirect_stdout(sys.stderr), scratch, recorder:
            Saves(scratch).install()
            Ranks(launch, recorder.recording.warn).install(recorder)
            try:
                launch.run()
            except capture.StepDone:
                pass
            except (KeyboardInterrupt, Error):
                raise
            except BaseException as problem:
                raised = problem
    except capture.CaptureUnavailable as problem:
        raise MissingError(str(problem), name) from problem
    finally:
        sys.argv, sys.path[:] = argv, path
    said = scratch.warnings()  # the recorder's own are in its trace
    quit_ = raised.code if isinstance(raised, SystemExit) else None
    fault = None if raised is None or isinstance(raised, SystemExit) else "%s%s" % (
        type(raised).__name__, "".join(" (%s)" % line[:200] for line in str(raised).strip().splitlines()[:1]))
    if not recorder.optimizer_steps:
        for line in said:
            print("plimsoll: %s" % line, file=sys.stderr)
        if fault is not None and raised is not None:
            sys.stderr.write("".join(traceback.format_exception(type(raised), raised, raised.__traceback__)))
            raise InputError("the script raised %s before its first optimizer step" % fault, _place(raised, script)) from raised
        how = "ended" if quit_ in (None, 0) else "exited with %s" % (quit_,)
        raise InputError("the script %s without an optimizer step: nothing was trained" % how, name)
    if fault is not None and raised is not None:
        said.append("%s: the script raised %s after its first optimizer step" % (_place(raised, script), fault))
    try:
        return recorder.trace(), said
    except RuntimeError as problem:
        raise InputError(str(problem), name) from problem


def estimate_script(launch: Launch, gpu: str = "h200", estimator: str = "hybrid", steps: Optional[int] = None,
                    alloc_conf: Optional[str] = None, risk: Optional[float] = None) -> Report:
    """The report on a training script, run up to its first optimizer steps."""
    script = launch.script
    card = _check(dict(DEFAULTS, gpu=gpu, estimator=estimator, alloc_conf=alloc_conf, risk=risk))
    taped, warnings = record(launch, steps, card)
    model = Model(taped, os.path.splitext(os.path.basename(script))[0], "trace", warnings)
    model._traced = dict.fromkeys(("precision", "optimizer"))  # as the script has them
    return model.estimate(gpu=gpu, estimator=estimator, alloc_conf=alloc_conf, risk=risk)


def main(argv: Optional[List[str]] = None) -> int:
    options = OPTIONS.parse_args(argv)
    conf = options.alloc_conf or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF")
    try:
        if options.timeline and not options.timeline.endswith((".svg", ".csv")):
            raise UsageError("%s ends neither in .svg nor in .csv" % options.timeline, "--timeline")
        if options.steps is not None and options.steps < 1:
            raise UsageError("from 1 on, not %d" % options.steps, "--steps")
        words = (["-m"] if options.module else []) + [options.script] + options.args
        report = estimate_script(parse(words, options.world, options.rank), options.gpu, options.estimator, options.steps, conf,
                                 options.risk / 100)
        if options.timeline:
            try:
                report.save_timeline(options.timeline)
            except OSError as problem:
                raise InputError("could not be written: %s" % problem.strerror, options.timeline) from problem
    except Error as problem:
        sys.stdout.flush()
        print("plimsoll: %s" % problem, file=sys.stderr)
        return problem.code
    print(json.dumps(report.json, ensure_ascii=False) if options.json else report)
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: threads and exit handlers that the script left behind would go on without their card.
    os._exit(status)
