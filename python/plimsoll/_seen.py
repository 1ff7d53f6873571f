"""What a run saw of a script, and what it did not: for the report, and for its JSON as `seen`.

A run ends after some optimizer steps; a script may do more that takes memory. Evaluations are looked for in its source,
since they often run at a larger batch: a line that calls .eval(), generate, evaluate, validate and the like, or opens
torch.no_grad, where no model was run without gradients. That a later step may have a larger batch cannot be found out,
and is said.
"""
from __future__ import annotations

import ast
import builtins
import os
from typing import Any, Dict, List, Optional, Tuple

# Calls that evaluate: of anything, by the last name.
EVALUATES = ("evaluate", "validate", "validation", "eval_model", "run_validation", "run_eval", "run_evaluation", "test_model", "generate",
             "predict")
MODELS = ("model", "net", "network", "module", "forward")
TELLING = ("eval", "valid", "test", "sample", "predict", "generate")  # in the name of a function without gradients
WITHOUT_GRADIENTS = ("no_grad", "inference_mode")


def _name(node: ast.AST) -> str:
    """The last name of what is called: eval of model.module.eval()."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _calls_a_model(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Call) and _name(n.func) in MODELS for n in ast.walk(node))


def evaluation_in(path: Optional[str]) -> Optional[Tuple[int, str]]:
    """The first line of a script that evaluates, and the word it does so by; None where there is none to be seen."""
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    found: List[Tuple[int, str]] = []
    frozen = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "requires_grad_"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and id(node) not in frozen:
            name = _name(node.func)
            copied = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call)  # deepcopy(model).eval(): an average
            if (name == "eval" and isinstance(node.func, ast.Attribute) and not node.args and not copied) or name in EVALUATES:
                found.append((node.lineno, name + "()"))
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                name = _name(item.context_expr.func if isinstance(item.context_expr, ast.Call) else item.context_expr)
                if name in WITHOUT_GRADIENTS and _calls_a_model(node):
                    found.append((node.lineno, name))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if any(_name(d.func if isinstance(d, ast.Call) else d) in WITHOUT_GRADIENTS for d in node.decorator_list) and (
                    _calls_a_model(node) or any(word in node.name for word in TELLING)):
                found.append((node.lineno, node.name + "()"))
    return min(found) if found else _after_the_loop(tree)


def _after_the_loop(tree: ast.AST) -> Optional[Tuple[int, str]]:
    """A call, after a loop that trains, of what the loop calls too: a last prediction, maybe of everything."""
    for owner in ast.walk(tree):
        body: List[ast.stmt] = owner.body if isinstance(owner, (ast.Module, ast.FunctionDef)) else []
        called: set[str] = set()
        for statement in body:
            names = [(n.lineno, n.func.id) for n in ast.walk(statement) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
            again = [(line, name + "()") for line, name in names if name in called]
            if again:
                return min(again)
            trains = any(isinstance(n, ast.Attribute) and n.attr == "backward" for n in ast.walk(statement))
            if trains and isinstance(statement, (ast.For, ast.While)):
                called = {name for _, name in names} - set(dir(builtins))
    return None


def _count(steps: int) -> str:
    return "1 optimizer step" if steps == 1 else "%d optimizer steps" % steps


def seen_of(end: Dict[str, Any], script: Optional[str]) -> Dict[str, Any]:
    """`seen` of the JSON: how many steps, how it ended, where evaluation was, and a sentence per thing that was not seen."""
    more, how, steps = end["seen"], end["end"], end["steps"]
    not_seen: List[str] = []
    whole = how == "exit" and not more.get("shortened")
    evaluation = None if more.get("evaluated") or whole else evaluation_in(script)
    name = os.path.basename(script) if script else ""
    if more.get("after") and how in ("steps", "timeout"):
        not_seen.append("later steps (a larger batch or a longer sequence in one of them, a second model)")
        if more.get("evaluated"):
            not_seen.append("more than %d batches of an evaluation" % more["batches"])
        if more.get("stopped"):
            not_seen.append("what follows %s, since %s" % (end["where"] or "the steps", more["stopped"]))
        elif how == "timeout":
            not_seen.append("what follows %s" % end["where"])
    elif how == "exit" and more.get("shortened"):
        not_seen.append("more than %d batches of each DataLoader after the steps, among them later steps" % more["batches"])
    elif how in ("timeout", "exception", "steps"):
        not_seen.append("what follows %s" % end["where"])
    if end.get("programs"):
        not_seen.append("what other programs do that the script started")
    if evaluation is not None:
        not_seen.insert(0, "the evaluation at %s, line %d (%s)" % (name, *evaluation))
    return {"optimizer_steps": steps, "ended": how, "where": end["where"] or None, "evaluated": more.get("evaluated") or None,
            "not_seen": not_seen}


def sentence(seen: Dict[str, Any]) -> str:
    """The same for people."""
    steps, ended = _count(seen["optimizer_steps"]), seen["ended"]
    line = "%s %s simulated" % (steps, "was" if seen["optimizer_steps"] == 1 else "were")
    if seen["evaluated"]:
        line += ", and the evaluation at %s" % seen["evaluated"]
    if ended == "exit" and not seen["not_seen"]:
        return line + ": all that the script does"
    if not seen["not_seen"]:
        return line
    return "%s; not simulated: %s" % (line, "; ".join(seen["not_seen"]))
