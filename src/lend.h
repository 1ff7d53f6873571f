/* lend: what libplimsoll lends to the laboratory (lab/), which includes of src/ this header alone.
 * Functions and tables that are used are listed in plimsoll.map under PLIMSOLL_PRIVATE: they may
 * change with every version, and both libraries are always of the same. */
#ifndef PL_LEND_H
#define PL_LEND_H

#include <plimsoll/lab.h>

#include "core/arena.h"
#include "core/checked.h"
#include "core/clock.h"
#include "core/cpu.h"
#include "core/error.h"
#include "core/file.h"
#include "core/sized.h"
#include "core/number.h"
#include "core/utf8.h"
#include "device/simulate.h"
#include "estimate/estimator.h"
#include "estimate/forms.h"
#include "estimate/hybrid.h"
#include "estimate/usage.h"
#include "estimate/weights.h"
#include "estimate/workspace_forest_costs.h"
#include "graph/graph.h"
#include "import/json.h"
#include "learn/forest.h"
#include "learn/leafwise.h"
#include "learn/trained_view.h"
#include "learn/tree.h"
#include "tape/optimizer.h"
#include "tape/tape.h"
#include "tape/train.h"

#endif
