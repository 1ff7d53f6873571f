#!/usr/bin/env python3
"""Writes a made-up model.json of N operators, to see how time and memory grow: make_chain.py N OUT.json [--static].

Blocks of linear, relu and add with their parameters, in the form torch.export writes (schema 8.17); the batch is
the symbol s0 unless --static. Not an export: no PyTorch is needed."""
import json, sys

WIDTH, BATCH = 64, 8


def tensor(sizes, grad=False, symbolic=True):
    strides, step = [], 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step *= size
    size = [{"as_int": s} for s in sizes]
    if symbolic:
        size[0] = {"as_expr": {"expr_str": "Symbol('s0', positive=True, integer=True)", "hint": {"as_int": BATCH}}}
    return {"dtype": 7, "sizes": size, "requires_grad": grad, "device": {"type": "cuda", "index": 0},
            "strides": [{"as_int": s} for s in strides], "storage_offset": {"as_int": 0}, "layout": 7}


def make(count, symbolic):
    nodes, values, specs, inputs = [], {}, [], []
    values["x"] = tensor([BATCH, WIDTH], symbolic=symbolic)
    before = carried = "x"
    for i in range(count):
        block, part = divmod(i, 3)
        kind = ("linear", "relu", "add")[part]
        name, path = f"{kind}_{block}", f"layers.{block}"
        arguments = [("input" if kind == "linear" else "self", before)]
        if kind == "linear":
            for what, sizes in (("weight", [WIDTH, WIDTH]), ("bias", [WIDTH])):
                parameter = f"p_layers_{block}_{what}"
                values[parameter] = tensor(sizes, grad=True, symbolic=False)
                specs.append({"parameter": {"arg": {"name": parameter}, "parameter_name": f"{path}.{what}"}})
                inputs.append({"as_tensor": {"name": parameter}})
                arguments.append((what, parameter))
        if kind == "add": arguments.append(("other", carried))
        overload = "Tensor" if kind == "add" else "default"
        nodes.append({
            "target": f"torch.ops.aten.{kind}.{overload}",
            "inputs": [{"name": n, "arg": {"as_tensor": {"name": t}}, "kind": 1} for n, t in arguments],
            "outputs": [{"as_tensor": {"name": name}}],
            "metadata": {"stack_trace": f'File "chain.py", line {part + 10}, in forward\n    x = {kind}(x)',
                         "nn_module_stack": f"L__self__,,chain.Chain;L__self__{path},{path},chain.Block"},
            "is_hop_single_tensor_return": None, "name": name})
        values[name] = tensor([BATCH, WIDTH], symbolic=symbolic)
        before = name
        if kind == "add": carried = name
    specs.append({"user_input": {"arg": {"as_tensor": {"name": "x"}}}})
    inputs.append({"as_tensor": {"name": "x"}})
    output = {"as_tensor": {"name": before}}
    graph = {"inputs": inputs, "outputs": [output], "nodes": nodes, "tensor_values": values, "sym_int_values": {},
             "sym_bool_values": {}, "is_single_tensor_return": False, "custom_obj_values": {}, "sym_float_values": {}}
    return {"graph_module": {"graph": graph, "signature": {"input_specs": specs,
                                                           "output_specs": [{"user_output": {"arg": output}}]},
                             "module_call_graph": [], "metadata": {}},
            "opset_version": {"aten": 10}, "range_constraints": {"s0": {"min_val": 1, "max_val": None}} if symbolic else {},
            "schema_version": {"major": 8, "minor": 17}, "verifiers": ["TRAINING"], "torch_version": "2.11.0"}


if __name__ == "__main__":
    with open(sys.argv[2], "w") as f: json.dump(make(int(sys.argv[1]), "--static" not in sys.argv), f)
