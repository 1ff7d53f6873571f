/* forms: which operators a model has, on tensors of how many dimensions; and which of them no
 * measured job had.
 *
 * A rule that was read in PyTorch's sources, or was right in four dimensions, is as good as a
 * measured one until it is not: of the architectures of 2026-11-18 that were far off, most had an
 * operator in a form that no measured job has (products in five dimensions: 38 to 53 % too low). */
#ifndef PL_ESTIMATE_FORMS_H
#define PL_ESTIMATE_FORMS_H

#include "graph/graph.h"
#include "learn/trained.h"

enum { PL_FORM_MOST = 128 /* bytes of a form's text; what is longer ends there */ };

/* The forms of a graph's nodes, each as often as it is there, with the bytes of what it makes (of a
 * view what it shows): "aten.matmul.default/5/5". */
typedef void pl_forms_see(void *context, const char *form, double bytes);
void pl_forms_each(const pl_graph *graph, pl_forms_see *see, void *context);

/* A set of forms; it keeps the texts' places, not copies. */
typedef struct pl_forms pl_forms;

pl_forms *pl_forms_new(void);                         /* NULL: out of memory */
bool pl_forms_add(pl_forms *forms, const char *form); /* false: out of memory */
bool pl_forms_have(const pl_forms *forms, const char *form);
void pl_forms_close(pl_forms **forms); /* takes NULL */

/* Bytes that forms make which are not among the columns of a part of hybrid's. NAN: out of memory. */
double pl_forms_strange(const pl_trained *part, const pl_graph *graph);

#endif
