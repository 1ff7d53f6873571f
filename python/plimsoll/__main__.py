"""python -m plimsoll [OPTIONS] SCRIPT [ARGS...]: what a training script will take of a GPU, without one.

The script is run as Python would run it, unchanged, but under fake tensors, in a process of its own (_outside.py,
_inside.py) and only up to its first optimizer steps; what it allocated till then is replayed by the library. Exit codes
are the command's: 0, 2 wrong usage, 3 a script that cannot be understood or a file that cannot be written, 4 a thing
missing on the machine, 5 a script that took too long.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import sys
from typing import Any, Dict, List, Optional, Tuple

from . import Error, InputError, LimitError, Model, Report, UsageError, __version__, _words
from ._api import _check
from ._inside import Job
from ._launch import Launch, parse
from ._model import DEFAULTS
from ._outside import Run, error_of
from ._seen import seen_of

STEPS = 2
# What a script does not take, and how it is run then.
AGAIN: Dict[str, Tuple[Dict[str, Any], str, str]] = {
    "gave_up": ({"full": False}, "the script gave up when it was told that the card is full", "without being told"),
    "cut_off": ({"cut": False}, "the script ended where a DataLoader gave fewer batches than it has", "with all of them"),
}
TIMEOUT_S = 600.0

OPTIONS = argparse.ArgumentParser(
    prog="python -m plimsoll", usage="python -m plimsoll [OPTIONS] [torchrun ... | accelerate launch ...] [-m] SCRIPT [ARGS...]",
    description="Runs a training script up to its first optimizer steps under fake tensors, with no GPU, and prints what "
                "the job will take of one. SCRIPT and ARGS are as Python takes them; options come before.",
    epilog="What the script writes goes to a scratch folder; it may read the network and start programs. The plimsoll command "
           "answers all else: files, configurations, the largest batch.")
OPTIONS.add_argument("-g", "--gpu", default=DEFAULTS["gpu"], help="the card (default: %(default)s)")
OPTIONS.add_argument("-e", "--estimator", default=DEFAULTS["estimator"], help="how the peak is found (default: %(default)s)")
OPTIONS.add_argument("-t", "--timeline", metavar="FILE", help="write the memory of the steps to FILE, a picture (.svg) or "
                     "numbers (.csv)")
OPTIONS.add_argument("--gpus", metavar="FILE", help="cards of one's own, looked at before the catalogue")
OPTIONS.add_argument("--risk", type=float, metavar="P", default=2.5, help="chance of an out-of-memory that is accepted, in percent, "
                     "0.5 to 50 (default: %(default)s)")
OPTIONS.add_argument("--steps", type=int, metavar="N", help="optimizer steps the script is run for, and on to the next one, past an "
                     "evaluation (default: %d, and then on for some seconds with the DataLoaders cut short, longer where steps differ)" % STEPS)
OPTIONS.add_argument("--until-exit", action="store_true", help="run the script until it ends by itself")
OPTIONS.add_argument("--timeout", metavar="T", help="end the script after T (90, 90s, 5m, 1h; 0: never) and answer by the steps "
                     "till then (default: %dm)" % (TIMEOUT_S / 60))
OPTIONS.add_argument("--alloc-conf", metavar="S", help="PYTORCH_CUDA_ALLOC_CONF of the job (default: this environment's)")
OPTIONS.add_argument("--world", type=int, metavar="N", help="ranks of a script of several processes (default: as torchrun's or accelerate's "
                     "arguments or the script say)")
OPTIONS.add_argument("--rank", type=int, metavar="R", help="which of them is run, from 0 (default: 0)")
OPTIONS.add_argument("-j", "--json", action="store_true", help="print one JSON object instead of text")
OPTIONS.add_argument("-V", "--version", action="version", version="plimsoll " + __version__)
OPTIONS.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module, as python -m has it")
OPTIONS.add_argument("script", metavar="SCRIPT", help="the training script; or torchrun, or accelerate launch, with their arguments and the script")
OPTIONS.add_argument("args", metavar="ARGS", nargs=argparse.REMAINDER, help="its arguments")


def _seconds(text: str) -> Optional[float]:
    """90, 90s, 5m, 1h; 0 is None."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|)", text.strip().lower())
    if found is None:
        raise UsageError("a time such as 90s, 5m or 1h, not %s" % text, "--timeout")
    return float(found.group(1)) * {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}[found.group(2)] or None


def _check_script(script: str) -> None:
    """What cannot be run as a script, and what to do instead."""
    if script.endswith(".ipynb"):
        raise InputError("a notebook; jupyter nbconvert --to script makes a script of it, or call plimsoll.estimate in it", script)
    if os.path.isdir(script):
        if not os.path.isfile(os.path.join(script, "__main__.py")):
            raise InputError("a folder without a __main__.py; give the training script in it", script)
        return
    if not os.path.exists(script):
        raise InputError("no such file", script)
    if script.endswith((".sh", ".bash")):
        raise InputError("a shell script; give the Python script that it starts, with its arguments", script)
    with open(script, "rb") as file:
        head = file.read(4096)
    if b"\0" in head and not head.startswith(b"PK"):
        raise InputError("not a Python script", script)


def _run(job: Job, timeout: Optional[float]) -> Any:
    """The outcome of the script; an Error where there is nothing to answer by."""
    steps = ("until it ends" if job.steps is None else "for a few optimizer steps" if job.onward
             else "for %d optimizer step%s" % (job.steps, "s" if job.steps != 1 else ""))
    print("plimsoll: runs %s %s without a GPU; what it writes goes to a scratch folder; it may read the network and start "
          "programs" % (job.name, steps), file=sys.stderr, flush=True)
    run = Run(job, timeout, os.environ.get("PLIMSOLL_NAMESPACE") != "0")
    outcome = run.run()
    for flag, (change, why, how) in AGAIN.items():
        if outcome.end["seen"].get(flag):
            print("plimsoll: %s; it is run again, %s" % (why, how), file=sys.stderr)
            job = job._replace(**change)
            run = Run(job, timeout, os.environ.get("PLIMSOLL_NAMESPACE") != "0")
            outcome = run.run()
    end, problem = outcome.end, error_of(outcome.end)
    if problem is None and not end["steps"]:
        problem = _without_a_step(end, job, timeout, outcome.end.get("programs") or [])
    if problem is not None:
        sys.stderr.write("".join([*end["noise"], *run.output.noise]))
        for line in outcome.warnings:
            print("plimsoll: %s" % line, file=sys.stderr)
        raise problem
    return outcome


def _without_a_step(end: Dict[str, Any], job: Job, timeout: Optional[float], programs: List[str]) -> Error:
    if end["end"] == "timeout":
        return LimitError("no optimizer step in %s; the script was here. --timeout gives it longer" % _words.time(1e3 * (timeout or 0)),
                          end["where"])
    if end["end"] == "exception":
        return InputError("the script %s before its first optimizer step" % end["fault"], end["where"])
    how = end["fault"] or "ended"
    if programs:
        return InputError("the script %s without an optimizer step of its own, and started %s: give that script to plimsoll"
                          % (how, programs[0]), end["where"] or job.name)
    return InputError("the script %s without an optimizer step: nothing was trained" % how, end["where"] or job.name)


def estimate_script(job: Job, timeout: Optional[float] = TIMEOUT_S, **settings: Any) -> Report:
    """The report on a training script, run up to its first optimizer steps. settings: as in plimsoll.estimate, gpu among them."""
    outcome = _run(job, timeout)
    end, warnings = outcome.end, outcome.warnings
    after = "" if end["seen"].get("after") else " after %d optimizer step%s" % (end["steps"], "s" if end["steps"] != 1 else "")
    if end["end"] == "exception":
        cut = "; its DataLoaders gave fewer batches than they have, which may be why" if end["seen"].get("shortened") else ""
        warnings.append("%s: the script %s%s%s" % (end["where"], end["fault"], after or ", after the steps", cut))
    elif end["fault"]:
        warnings.append("%s: the script %s%s" % (end["where"], end["fault"], after))
    elif end["end"] == "timeout" and after:
        warnings.append("%s: the script was not done after %s, and was ended here%s" % (
            end["where"], _words.time(1e3 * (timeout or 0)), after))
    if end["forked"]:
        warnings.append("trained in a process that the script forked; the figures are of that one alone")
    model = Model(outcome.trace, os.path.splitext(job.name)[0], "trace", warnings)
    model._traced = dict.fromkeys(("precision", "optimizer"))  # as the script has them
    model._seen = seen_of(end, job.source)
    return model.estimate(**settings)


def _job(options: argparse.Namespace, settings: Dict[str, Any]) -> Job:
    if options.timeline and not options.timeline.endswith((".svg", ".csv")):
        raise UsageError("%s ends neither in .svg nor in .csv" % options.timeline, "--timeline")
    if options.steps is not None and options.steps < 1:
        raise UsageError("from 1 on, not %d" % options.steps, "--steps")
    if options.steps is not None and options.until_exit:
        raise UsageError("either that or --until-exit", "--steps")
    steps = None if options.until_exit else options.steps or STEPS
    gpu = _check(dict(DEFAULTS, **settings))
    launch: Launch = parse((["-m"] if options.module else []) + [options.script] + options.args, options.world, options.rank)
    if not launch.module:
        _check_script(launch.script)
    return Job(launch, steps, gpu, onward=options.steps is None and not options.until_exit)


def main(argv: Optional[List[str]] = None) -> int:
    options = OPTIONS.parse_args(argv)
    conf = options.alloc_conf or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF")
    try:
        timeout = TIMEOUT_S if options.timeout is None else _seconds(options.timeout)
        settings = dict(gpu=options.gpu, estimator=options.estimator, alloc_conf=conf, gpus=options.gpus,
                        risk=options.risk / 100)
        report = estimate_script(_job(options, settings), timeout, **settings)
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
    sys.exit(main())
