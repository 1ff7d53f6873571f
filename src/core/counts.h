/* counts: how many values the public enums have in this version. For the library and the command,
 * which are built together; other callers see them grow. */
#ifndef PL_CORE_COUNTS_H
#define PL_CORE_COUNTS_H

#include <plimsoll/plimsoll.h>

#define PL_KINDS    (PL_CONTEXT + 1)
#define PL_PHASES   (PL_PHASE_OPTIMIZER + 1)
#define PL_COUNTERS (PL_TENSOR + 1)
#define PL_FAMILIES (PL_FAMILY_RNN + 1)
#define PL_LEVELS   (PL_LEVEL_HIGH + 1)
#define PL_SHARINGS (PL_MPS + 1)
#define PL_VERDICTS (PL_DOES_NOT_FIT + 1)

#endif
