/* onnx_fx: the operators of PyTorch that a file says its nodes came from.
 *
 * torch.onnx.export(dynamo=True) writes with each node the call that it stands for, as torch.fx
 * prints it:
 *     %conv2d : [num_users=1] = call_function[target=torch.ops.aten.conv2d.default](
 *         args = (%x, %p_conv1_weight, None, [2, 2], [3, 3]), kwargs = {})
 * Nodes with the same call are one operator of the graph, whatever the exporter made of it. Values
 * are looked up by the name they have there; parameters (%p_...) and buffers (%b_...) by their
 * path with '_' for '.'. */
#ifndef PL_IMPORT_ONNX_FX_H
#define PL_IMPORT_ONNX_FX_H

#include "import/onnx_build.h"

typedef enum fx_kind {
    FX_NONE,
    FX_VALUE, /* .value: of onnx_graph, -1: not found */
    FX_INT,
    FX_FLOAT,
    FX_BOOL,
    FX_DTYPE,
    FX_TEXT,
    FX_LIST,
} fx_kind;

typedef struct fx_arg fx_arg;
struct fx_arg {
    const char *name; /* "stride"; NULL in lists, and where the name is not known */
    char mark;        /* '*' a list of tensors, '%' an integer, 0 */
    fx_kind kind;
    int32_t value;
    int64_t i;
    double f;
    const char *text;
    fx_arg *items; /* FX_LIST */
    uint32_t count;
};

struct fx_call {
    const char *target; /* "aten.conv2d.default" */
    fx_arg *args;
    uint32_t arg_count, member_count;
    int32_t first, last; /* nodes */
    int32_t *outputs;    /* values used by others */
    uint32_t output_count;
    bool contiguous; /* memory_format=torch.contiguous_format */
};

/* Reads every node's metadata: calls, modules, lines. False: out of memory. */
bool pl_onnx_fx_read(onnx_graph *g, pl_arena *scratch);
/* Finds the parameters that calls name and that stand in the file under other names. False: out of
 * memory. */
bool pl_onnx_fx_bind(onnx_graph *g);
/* The module of a path below a parent (-1: none), made where it is new; -2: out of memory. */
int32_t pl_onnx_module(onnx_graph *g, pl_arena *scratch, int32_t parent, const char *path,
                       size_t path_length, const char *type, size_t type_length);
/* Names of an operator's arguments in order, "input weight bias stride"; a mark behind a name: '*'
 * a list of tensors, '%' an integer. target: "conv2d.default". */
const char *pl_onnx_fx_schema(const char *target);
/* An argument's name as a constant of the program; NULL: not known. */
const char *pl_onnx_fx_name(const char *text, size_t length);
/* Appends the operator; false: it needs what is not there, nothing was appended. */
bool pl_onnx_fx_emit(onnx_build *c, const fx_call *call);

#endif
