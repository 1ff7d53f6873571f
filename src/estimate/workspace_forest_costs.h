/* workspace_forest_costs: what the forests of workspaces are asked and what a wrong answer costs,
 * the same to those who train and to those who ask. */
#ifndef PL_ESTIMATE_WORKSPACE_FOREST_COSTS_H
#define PL_ESTIMATE_WORKSPACE_FOREST_COSTS_H

#include <stdint.h>

#include "device/workspace.h"

enum { PL_WORKSPACE_EXACT = 1024 /* bytes; the allocator rounds to 512 */ };
#define PL_WORKSPACE_MIB 1048576.0

/* What an answer costs: its error as a share of the tensors' bytes, times low where it is too low,
 * up to most, and inexact. */
typedef struct pl_workspace_costs {
    double low, most, inexact;
} pl_workspace_costs;

/* What is asked: the workspace used by a pass, and PL_CONV_PASSES further on the largest tried. */
enum { PL_WORKSPACE_QUESTIONS = 2 * PL_CONV_PASSES };
typedef struct pl_workspace_question {
    const char *target, *options;
    pl_workspace_costs answering;
} pl_workspace_question;
extern const pl_workspace_question pl_workspace_questions[PL_WORKSPACE_QUESTIONS];

/* Of answering `answer` where `truth` is right. */
double pl_workspace_cost(const pl_workspace_costs *costs, int64_t answer, int64_t truth,
                         double tensors);

#endif
