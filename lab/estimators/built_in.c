/* built_in: the weights in the library's read-only data, made by meson from models/NAME.plm. */
#include "lab/estimators/method.h"

#define WEIGHTS(symbol)                                                                            \
    extern const unsigned char pl_model_##symbol[], pl_model_##symbol##_end[];                     \
    pl_built_in pl_built_in_##symbol = {pl_model_##symbol, pl_model_##symbol##_end, NULL};
#include "lab_weights_rows.h"
#undef WEIGHTS
