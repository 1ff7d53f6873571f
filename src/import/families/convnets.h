/* convnets: residual networks as other models have them for a backbone. */
#ifndef PL_IMPORT_FAMILIES_CONVNETS_H
#define PL_IMPORT_FAMILIES_CONVNETS_H

#include "import/families/encoder.h"

/* A ResNet whose batch norms are frozen: four maps, each half as large as the one before. */
typedef struct pl_hf_backbone {
    int64_t depths[4], widths[4], stem;
    bool bottleneck, frozen; /* frozen: no parameter learns */
} pl_hf_backbone;
void pl_hf_resnet_maps(pl_hf *m, const pl_hf_backbone *k, int32_t pixels, int32_t maps[4]);

#endif
