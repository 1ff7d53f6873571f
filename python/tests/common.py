"""What the tests share: where things lie, and the command to compare with."""
import json
import os
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = str(ROOT / "examples" / "resnet18.pt2")
COMMAND = os.environ.get("PLIMSOLL", str(ROOT / "build" / "plimsoll"))


def command(*args, wanted=0):
    """The command's --json on the same question; wanted: its exit code."""
    if not os.path.exists(COMMAND):
        raise unittest.SkipTest("no command at %s" % COMMAND)
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    done = subprocess.run([COMMAND, *args], capture_output=True, text=True, env=environment)
    if done.returncode != wanted:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout) if "--json" in args else done.stdout
