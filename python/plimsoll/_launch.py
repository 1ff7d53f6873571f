"""How a script of several processes is started: torchrun and accelerate launch as words before it, --world and --rank, the environment.

    python -m plimsoll torchrun --nproc-per-node 8 train.py ARGS
    python -m plimsoll -m torch.distributed.run --nproc-per-node 8 train.py ARGS
    python -m plimsoll accelerate launch --num_processes 8 train.py ARGS

are taken apart by the tools' own parsers. A `Launch` says which script is run, as which rank of how many, and with which
environment; nothing is started but that one rank, in this process.

Left out: deepspeed, horovodrun, mpirun and srun as words before a script; torchrun --no-python.
"""
from __future__ import annotations

import contextlib
import os
import runpy
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

from ._errors import InputError, MissingError, UsageError

NODE = 8  # GPUs per machine, where only the world is known


class Launch:
    """One rank. module: the script is a module's name (python -m). world: None where nobody said. source: who said it."""

    def __init__(self, script: str, args: List[str], module: bool = False) -> None:
        self.script, self.args, self.module = script, args, module
        self.world: Optional[int] = None
        self.rank, self.local_world = 0, 1
        self.source = ""
        self.env: Dict[str, str] = {}

    @property
    def local_rank(self) -> int:
        return self.rank % self.local_world

    def set(self, world: int, local_world: int, source: str) -> None:
        self.world, self.local_world, self.source = world, local_world, source

    def environment(self) -> Dict[str, str]:
        """The variables that torchrun sets for this rank (torch/distributed/elastic/agent/server/local_elastic_agent.py)."""
        if self.world is None:
            return dict(self.env)
        nodes = -(-self.world // self.local_world)
        found = {"RANK": self.rank, "LOCAL_RANK": self.local_rank, "WORLD_SIZE": self.world, "LOCAL_WORLD_SIZE": self.local_world,
                 "GROUP_RANK": self.rank // self.local_world, "GROUP_WORLD_SIZE": nodes, "ROLE_RANK": self.rank, "ROLE_WORLD_SIZE": self.world,
                 "ROLE_NAME": "default", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500}
        if self.source == "torchrun":
            found.update({"TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": 0, "TORCHELASTIC_RUN_ID": "none",
                          "TORCHELASTIC_USE_AGENT_STORE": "False"})
        return {**{key: str(value) for key, value in found.items()}, **self.env}

    def run(self) -> None:
        """As Python would run it, in this process: sys.argv, sys.path[0] and __name__ are as Python has them."""
        if self.module:
            sys.argv, sys.path[0:1] = [self.script, *self.args], [os.getcwd()]
            runpy.run_module(self.script, run_name="__main__", alter_sys=True)
        else:
            sys.argv, sys.path[0:1] = [self.script, *self.args], [os.path.dirname(os.path.abspath(self.script))]
            runpy.run_path(self.script, run_name="__main__")


def _quietly(parse: Callable[[], Any], tool: str) -> Any:
    """Arguments by a tool's own parser; its complaint is ours."""
    import io
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            return parse()
    except SystemExit as problem:
        lines = said.getvalue().strip().splitlines()
        raise UsageError(lines[-1] if lines else "its arguments are not understood", tool) from problem


def _count(text: str, gpus: int, what: str) -> int:
    """--nproc-per-node: a number, or gpu, auto, cpu."""
    if text in ("gpu", "auto", "cpu", "xpu"):
        return gpus
    try:
        return int(text)
    except ValueError:
        raise UsageError("%s: a number, gpu or auto, not %s" % (what, text), "torchrun") from None


def _torchrun(words: List[str], gpus: int) -> Launch:
    try:
        from torch.distributed.run import get_args_parser
    except ImportError as problem:
        raise MissingError("torchrun's arguments are read with PyTorch, which this Python does not have: %s" % problem, sys.executable) from problem
    options = _quietly(lambda: get_args_parser().parse_args(words), "torchrun")
    if getattr(options, "no_python", False):
        raise UsageError("--no-python starts a program that is not a script", "torchrun")
    launch = Launch(options.training_script, list(options.training_script_args), bool(options.module))
    local = _count(str(options.nproc_per_node), gpus, "--nproc-per-node")
    nodes = int(str(options.nnodes).split(":")[-1])
    if local < 1 or nodes < 1:
        raise UsageError("from 1 on: --nproc-per-node and --nnodes", "torchrun")
    launch.set(local * nodes, local, "torchrun")
    launch.rank = int(options.node_rank or 0) * local
    return launch


def _accelerate(words: List[str], gpus: int) -> Launch:
    if not words or words[0] != "launch":
        raise UsageError("of accelerate's commands only launch runs a script", "accelerate")
    try:
        from accelerate.commands.launch import _validate_launch_command, launch_command_parser
        from accelerate.utils import launch as tools
    except ImportError as problem:
        raise MissingError("its arguments are read with the package accelerate, which this Python does not have: %s" % problem,
                           "accelerate") from problem
    options = _quietly(lambda: _validate_launch_command(launch_command_parser().parse_args(words[1:]))[0], "accelerate launch")
    launch = Launch(options.training_script, list(options.training_script_args), bool(getattr(options, "module", False)))
    world = int(options.num_processes or 1)
    nodes = max(1, int(options.num_machines or 1))
    several = world > 1 or getattr(options, "use_fsdp", False) or getattr(options, "multi_gpu", False)
    prepare = tools.prepare_multi_gpu_env if several else (lambda given: tools.prepare_simple_launcher_cmd_env(given)[1])
    made = dict(_quietly(lambda: prepare(options), "accelerate launch"))
    launch.env = {key: value for key, value in made.items() if os.environ.get(key) != value and isinstance(value, str)}
    if several:
        launch.set(world, max(1, world // nodes), "accelerate launch")
    else:
        launch.source = "accelerate launch"
    return launch


# The words before a script, and who reads what follows. gpus: the cards of the machine, for --nproc-per-node gpu.
FORMS: List[Tuple[Tuple[str, ...], Callable[[List[str], int], Launch]]] = [
    (("torchrun",), _torchrun), (("python", "-m", "torch.distributed.run"), _torchrun), (("-m", "torch.distributed.run"), _torchrun),
    (("-m", "torch.distributed.launch"), _torchrun), (("python", "-m", "torch.distributed.launch"), _torchrun), (("accelerate",), _accelerate),
    (("-m", "accelerate.commands.launch"), lambda words, gpus: _accelerate(["launch", *words], gpus)),
]

# Started by other means, whose variables or servers are not imitated.
UNKNOWN = {"deepspeed": "DeepSpeed", "horovodrun": "Horovod", "mpirun": "MPI", "mpiexec": "MPI", "srun": "Slurm"}


def parse(words: List[str], world: Optional[int] = None, rank: Optional[int] = None) -> Launch:
    """words: the script and its arguments, or one of FORMS with them. world, rank: the options --world and --rank."""
    if world is not None and world < 1:
        raise UsageError("from 1 on, not %d" % world, "--world")
    launch: Optional[Launch] = None
    for form, read in FORMS:
        if tuple(words[:len(form)]) == form and not (len(form) == 1 and os.path.isfile(form[0])):
            launch = read(words[len(form):], world or 1)
            break
    if launch is None:
        tool = UNKNOWN.get(os.path.basename(words[0])) if not os.path.isfile(words[0]) else None
        if tool is not None:
            raise InputError("scripts started by %s are not run; give the script itself and --world N" % tool, words[0])
        rest = words[1:] if words[0] in ("python", "python3") and not os.path.isfile(words[0]) and len(words) > 1 else words
        launch = Launch(rest[1], rest[2:], True) if rest[0] == "-m" and len(rest) > 1 else Launch(rest[0], rest[1:])
        given = os.environ.get("WORLD_SIZE", "")
        if world is None and given.isdigit() and os.environ.get("RANK", "").isdigit():
            local = os.environ.get("LOCAL_WORLD_SIZE", "")
            launch.set(int(given), int(local) if local.isdigit() else min(int(given), NODE), "the environment")
            launch.rank = int(os.environ["RANK"])
    if world is not None:
        launch.set(world, launch.local_world if launch.world == world else world if world <= NODE else NODE, "--world")
    if rank is not None:
        launch.rank = rank
    if not 0 <= launch.rank < (launch.world or 1):
        raise UsageError("from 0 to %d, of %d" % ((launch.world or 1) - 1, launch.world or 1), "--rank")
    return launch
