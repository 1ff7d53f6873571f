/* workspace: what cuDNN, cuBLAS and the attention kernels take, against measured numbers.
 *
 * The convolution rows are jobs' ids of the ground truth or a measured configuration ("convs"), all
 * on an H200 on 2026-11-15 with PyTorch 2.11, cuDNN 9.19; some of every class that the tree can
 * answer, chosen and written here by tools/workspace/fit.py --tests. What the tree gets wrong is in
 * its validation table, not here. */
#include "device/workspace.h"

#include <stdio.h>
#include <stdlib.h>

static int failures;

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            failures++;                                                                            \
            printf("%s:%d: ", __FILE__, __LINE__);                                                 \
            printf(__VA_ARGS__);                                                                   \
            printf("\n");                                                                          \
        }                                                                                          \
    } while (0)

typedef struct row {
    const char *source, *engine;
    pl_conv_pass pass;
    int64_t bytes; /* measured */
    pl_conv conv;
} row;

#define C(d, n, i, o, g) .dims = d, .batch = n, .in_channels = i, .out_channels = o, .groups = g
#define F32              .dtype = PL_DT_F32
#define TF32             .dtype = PL_DT_F32, .tf32 = true
#define F16              .dtype = PL_DT_F16, .tf32 = true
#define BF16             .dtype = PL_DT_BF16, .tf32 = true

/* clang-format off */
static const row rows[] = {
/* rows */
    {"tv-mobilenet_v3_small-0", "none", PL_CONV_FORWARD, 400,
     {C(2, 32, 40, 240, 1), .in = {14, 14}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"tv-efficientnet_b0-0", "none", PL_CONV_FORWARD, 0,
     {C(2, 32, 480, 112, 1), .in = {14, 14}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"tv-efficientnet_b0-0", "none", PL_CONV_FORWARD, 0,
     {C(2, 32, 6, 144, 1), .in = {1, 1}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {1, 1}, TF32}},
    {"tv-resnet50-0", "small", PL_CONV_FORWARD, 400,
     {C(2, 64, 128, 512, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {28, 28}, TF32}},
    {"tv-densenet121-0", "small", PL_CONV_FORWARD, 400,
     {C(2, 128, 1024, 512, 1), .in = {14, 14}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"tv-fcn_resnet50-0", "small", PL_CONV_FORWARD, 400,
     {C(2, 4, 512, 1024, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {28, 28}, TF32}},
    {"tv-resnext50_32x4d-0", "converted", PL_CONV_FORWARD, 38535315,
     {C(2, 64, 1024, 2048, 1), .in = {7, 7}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {7, 7}, TF32}},
    {"tv-regnet_y_400mf-0", "converted", PL_CONV_FORWARD, 385365651,
     {C(2, 128, 48, 48, 6), .in = {112, 112}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"tv-densenet121-0", "converted", PL_CONV_FORWARD, 257048723,
     {C(2, 128, 128, 32, 1), .in = {56, 56}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"tv-resnet18-0", "converted-unpadded", PL_CONV_FORWARD, 77070483,
     {C(2, 128, 128, 256, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {2, 2},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"tv-regnet_x_3_2gf-0", "converted-unpadded", PL_CONV_FORWARD, 115605651,
     {C(2, 64, 96, 192, 1), .in = {56, 56}, .kernel = {1, 1}, .stride = {2, 2},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {28, 28}, TF32}},
    {"tv-efficientnet_b4-0", "converted-unpadded", PL_CONV_FORWARD, 30908432,
     {C(2, 128, 960, 272, 1), .in = {7, 7}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {7, 7}, TF32}},
    {"tv-r3d_18-0", "x-and-w", PL_CONV_FORWARD, 205553680,
     {C(3, 16, 64, 128, 1), .in = {16, 56, 56}, .kernel = {1, 1, 1}, .stride = {2, 2, 2},
      .padding = {0, 0, 0}, .dilation = {1, 1, 1}, .out = {8, 28, 28}, TF32}},
    {"cnn-0457", "winograd", PL_CONV_FORWARD, 1267776,
     {C(2, 48, 41, 4, 1), .in = {5, 5}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {5, 5}, BF16}},
    {"cnn-0457", "winograd", PL_CONV_FORWARD, 5025600,
     {C(2, 48, 25, 4, 1), .in = {20, 20}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {20, 20}, BF16}},
    {"cnn-1487", "winograd", PL_CONV_FORWARD, 2985984,
     {C(2, 32, 32, 8, 1), .in = {16, 16}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {16, 16}, BF16}},
    {"tv-regnet_y_400mf-0", "converted-power", PL_CONV_FORWARD, 83522963,
     {C(2, 128, 104, 104, 13), .in = {28, 28}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {28, 28}, TF32}},
    {"cnn-0338", "converted-power", PL_CONV_FORWARD, 205815955,
     {C(2, 32, 128, 128, 1), .in = {112, 112}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {112, 112}, BF16}},
    {"tv-resnet50-0", "converted-power", PL_CONV_FORWARD, 32112656,
     {C(2, 64, 2048, 512, 1), .in = {7, 7}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {7, 7}, TF32}},
    {"tv-regnet_y_400mf-0", "none", PL_CONV_BACKWARD_DATA, 0,
     {C(2, 128, 32, 48, 1), .in = {112, 112}, .kernel = {1, 1}, .stride = {2, 2},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"cnn-1657", "none", PL_CONV_BACKWARD_DATA, 0,
     {C(2, 24, 432, 432, 1), .in = {12, 12}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {12, 12}, BF16}},
    {"cnn-1657", "none", PL_CONV_BACKWARD_DATA, 0,
     {C(2, 24, 384, 432, 1), .in = {12, 12}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {12, 12}, BF16}},
    {"tv-googlenet-0", "small", PL_CONV_BACKWARD_DATA, 400,
     {C(2, 128, 192, 96, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {28, 28}, TF32}},
    {"tv-densenet121-0", "small", PL_CONV_BACKWARD_DATA, 400,
     {C(2, 128, 64, 128, 1), .in = {56, 56}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"tv-densenet121-0", "small", PL_CONV_BACKWARD_DATA, 400,
     {C(2, 128, 800, 128, 1), .in = {14, 14}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"cnn-1183", "converted", PL_CONV_BACKWARD_DATA, 28316307,
     {C(2, 48, 13, 10, 1), .in = {96, 96}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {96, 96}, BF16, .benchmark = true}},
    {"cnn-1606", "converted", PL_CONV_BACKWARD_DATA, 2145808,
     {C(2, 24, 27, 18, 1), .in = {28, 28}, .kernel = {5, 5}, .stride = {1, 1},
      .padding = {2, 2}, .dilation = {1, 1}, .out = {28, 28}, BF16}},
    {"tv-resnet50-0", "converted", PL_CONV_BACKWARD_DATA, 154140819,
     {C(2, 64, 512, 1024, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {2, 2},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"tv-googlenet-0", "converted-unpadded", PL_CONV_BACKWARD_DATA, 27295891,
     {C(2, 128, 832, 256, 1), .in = {7, 7}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {7, 7}, TF32}},
    {"tv-resnet101-0", "converted-unpadded", PL_CONV_BACKWARD_DATA, 8028176,
     {C(2, 16, 512, 2048, 1), .in = {7, 7}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {7, 7}, TF32}},
    {"cnn-1657", "converted-unpadded", PL_CONV_BACKWARD_DATA, 1658896,
     {C(2, 24, 480, 480, 1), .in = {6, 6}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {6, 6}, BF16}},
    {"tv-deeplabv3_resnet50-0", "converted-power", PL_CONV_BACKWARD_DATA, 76677136,
     {C(2, 8, 2048, 256, 1), .in = {28, 28}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {36, 36}, .dilation = {36, 36}, .out = {28, 28}, TF32}},
    {"tv-resnet101-0", "converted-power", PL_CONV_BACKWARD_DATA, 25837584,
     {C(2, 16, 64, 64, 1), .in = {56, 56}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"tv-fcn_resnet50-0", "converted-power", PL_CONV_BACKWARD_DATA, 6570000,
     {C(2, 4, 64, 64, 1), .in = {56, 56}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"tv-regnet_y_400mf-0", "none", PL_CONV_BACKWARD_WEIGHT, 0,
     {C(2, 128, 32, 48, 1), .in = {112, 112}, .kernel = {1, 1}, .stride = {2, 2},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"tv-vgg11-0", "none", PL_CONV_BACKWARD_WEIGHT, 0,
     {C(2, 64, 3, 64, 1), .in = {224, 224}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {224, 224}, TF32}},
    {"tv-regnet_x_3_2gf-0", "none", PL_CONV_BACKWARD_WEIGHT, 0,
     {C(2, 64, 32, 96, 1), .in = {112, 112}, .kernel = {1, 1}, .stride = {2, 2},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"tv-deeplabv3_resnet50-0", "converted", PL_CONV_BACKWARD_WEIGHT, 35128016,
     {C(2, 8, 512, 512, 1), .in = {28, 28}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {4, 4}, .dilation = {4, 4}, .out = {28, 28}, TF32}},
    {"cnn-1657", "converted", PL_CONV_BACKWARD_WEIGHT, 1575952,
     {C(2, 24, 432, 480, 1), .in = {6, 6}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {6, 6}, BF16}},
    {"tv-fcn_resnet50-0", "converted", PL_CONV_BACKWARD_WEIGHT, 22282960,
     {C(2, 4, 512, 512, 1), .in = {28, 28}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {2, 2}, .dilation = {2, 2}, .out = {28, 28}, TF32}},
    {"tv-fcn_resnet50-0", "per-image", PL_CONV_BACKWARD_WEIGHT, 16777616,
     {C(2, 4, 2048, 512, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {28, 28}, TF32}},
    {"tv-mnasnet1_0-0", "per-image", PL_CONV_BACKWARD_WEIGHT, 7077888,
     {C(2, 32, 96, 576, 1), .in = {14, 14}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"tv-resnet50-0", "per-image", PL_CONV_BACKWARD_WEIGHT, 4194704,
     {C(2, 64, 64, 256, 1), .in = {56, 56}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"cnn-1435", "winograd", PL_CONV_BACKWARD_WEIGHT, 7225344,
     {C(2, 48, 32, 32, 1), .in = {16, 16}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {16, 16}, TF32}},
    {"cnn-0818", "winograd", PL_CONV_BACKWARD_WEIGHT, 1327104,
     {C(2, 8, 32, 32, 1), .in = {16, 16}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {16, 16}, BF16}},
    {"tv-densenet121-0", "winograd", PL_CONV_BACKWARD_WEIGHT, 12386304,
     {C(2, 128, 128, 32, 1), .in = {7, 7}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {7, 7}, TF32}},
    {"tv-resnet50-0", "converted-slices-64", PL_CONV_BACKWARD_WEIGHT, 104972967,
     {C(2, 64, 64, 64, 1), .in = {56, 56}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"tv-resnet101-0", "converted-slices-64", PL_CONV_BACKWARD_WEIGHT, 27902631,
     {C(2, 16, 64, 64, 1), .in = {56, 56}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"tv-regnet_y_400mf-0", "converted-slices-64", PL_CONV_BACKWARD_WEIGHT, 64717455,
     {C(2, 128, 104, 208, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {2, 2},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"tv-resnet101-0", "converted-slices-128", PL_CONV_BACKWARD_WEIGHT, 25494111,
     {C(2, 16, 256, 256, 1), .in = {28, 28}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"tv-resnext50_32x4d-0", "converted-slices-128", PL_CONV_BACKWARD_WEIGHT, 111149487,
     {C(2, 64, 1024, 1024, 1), .in = {14, 14}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"tv-resnet50-0", "converted-slices-128", PL_CONV_BACKWARD_WEIGHT, 35127903,
     {C(2, 64, 256, 256, 1), .in = {14, 14}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"cnn-0818", "converted-power", PL_CONV_BACKWARD_WEIGHT, 1067024,
     {C(2, 8, 32, 32, 1), .in = {32, 32}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {32, 32}, BF16}},
    {"tv-resnet50-0", "converted-power", PL_CONV_BACKWARD_WEIGHT, 32112656,
     {C(2, 64, 512, 2048, 1), .in = {7, 7}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {7, 7}, TF32}},
    {"cnn-0705", "converted-power", PL_CONV_BACKWARD_WEIGHT, 5242896,
     {C(2, 4, 512, 512, 1), .in = {8, 8}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {8, 8}, F16}},
/* end */
};
/* clang-format on */

/* Closer than this is exact: the constants beside an engine's buffers differ by a few hundred
 * bytes. */
enum { EXACT = 1024, ROWS = (int)(sizeof rows / sizeof rows[0]) };

static void convolutions_as_measured(void) {
    for (int i = 0; i < ROWS; i++) {
        double doubt = -1;
        int64_t bytes = pl_workspace_conv(&rows[i].conv, rows[i].pass, 9, 0, &doubt);
        CHECK(llabs(bytes - rows[i].bytes) <= EXACT, "row %d, %s, %s: %lld, measured %lld", i,
              rows[i].source, rows[i].engine, (long long)bytes, (long long)rows[i].bytes);
        CHECK(doubt >= 0, "row %d: doubt %g", i, doubt);
    }
}

static void benchmark_tries_at_least_what_it_keeps(void) {
    for (int i = 0; i < ROWS; i++) {
        pl_conv conv = rows[i].conv;
        conv.benchmark = true;
        int64_t kept = pl_workspace_conv(&conv, rows[i].pass, 9, 0, NULL);
        int64_t tried = pl_workspace_conv_tried(&conv, rows[i].pass, 9, 0, NULL);
        CHECK(tried >= kept, "row %d: tried %lld, kept %lld", i, (long long)tried, (long long)kept);
    }
}

/* A 1d convolution is the 2d one with a height of 1. */
static void one_dimension_runs_as_two(void) {
    pl_conv one = {C(1, 2, 512, 512, 1), .in = {3199},    .kernel = {3}, .stride = {2},
                   .padding = {0},       .dilation = {1}, .out = {1599}, TF32};
    pl_conv two = {C(2, 2, 512, 512, 1), .in = {1, 3199},    .kernel = {1, 3}, .stride = {1, 2},
                   .padding = {0, 0},    .dilation = {1, 1}, .out = {1, 1599}, TF32};
    for (int pass = 0; pass < PL_CONV_PASSES; pass++) {
        int64_t a = pl_workspace_conv(&one, (pl_conv_pass)pass, 9, 0, NULL);
        int64_t b = pl_workspace_conv(&two, (pl_conv_pass)pass, 9, 0, NULL);
        CHECK(a == b, "pass %d: 1d %lld, 2d %lld", pass, (long long)a, (long long)b);
    }
}

/* PyTorch's own depthwise kernels; tv-mobilenet_v2-0 (fp32, NCHW) takes nothing in any of them. */
static void native_depthwise(void) {
    pl_conv conv = {C(2, 16, 96, 96, 96), .in = {56, 56},     .kernel = {3, 3}, .stride = {1, 1},
                    .padding = {1, 1},    .dilation = {1, 1}, .out = {56, 56},  TF32};
    CHECK(pl_workspace_conv_native(&conv), "fp32 NCHW depthwise is PyTorch's own");
    for (int pass = 0; pass < PL_CONV_PASSES; pass++)
        CHECK(pl_workspace_conv(&conv, (pl_conv_pass)pass, 9, 0, NULL) == 0, "pass %d", pass);
    conv.channels_last = true;
    CHECK(!pl_workspace_conv_native(&conv), "channels last goes to cuDNN");
    conv.channels_last = false;
    conv.dtype = PL_DT_F16;
    CHECK(!pl_workspace_conv_native(&conv), "fp16, 3x3, stride 1, wide enough goes to cuDNN");
    conv.dtype = PL_DT_BF16;
    CHECK(pl_workspace_conv_native(&conv), "bf16 NCHW does not");
    conv.dtype = PL_DT_F16;
    conv.stride[0] = conv.stride[1] = 2;
    conv.out[0] = conv.out[1] = 28;
    CHECK(pl_workspace_conv_native(&conv), "fp16, stride 2, 96 channels does not");
    conv.in_channels = conv.out_channels = conv.groups = 512;
    CHECK(!pl_workspace_conv_native(&conv), "fp16, stride 2, 512 channels does");
    conv.transposed = true;
    CHECK(!pl_workspace_conv_native(&conv), "there is no transposed one");
}

static void nonsense_is_refused(void) {
    pl_conv good = {C(2, 1, 8, 8, 1),  .in = {8, 8},       .kernel = {3, 3}, .stride = {1, 1},
                    .padding = {1, 1}, .dilation = {1, 1}, .out = {8, 8},    TF32};
    pl_conv bad[6];
    for (int i = 0; i < 6; i++) bad[i] = good;
    bad[0].dims = 4;
    bad[1].groups = 3;
    bad[2].batch = 0;
    bad[3].dtype = PL_DT_UNKNOWN;
    bad[4].in[0] = INT64_MAX;
    bad[5].batch = bad[5].in[0] = bad[5].in[1] = (int64_t)1 << 31;
    for (int i = 0; i < 6; i++) {
        double doubt = 0;
        CHECK(pl_workspace_conv(&bad[i], PL_CONV_FORWARD, 9, 0, &doubt) == INT64_MAX &&
                  doubt == 1.0,
              "bad %d", i);
        CHECK(pl_workspace_conv_tried(&bad[i], PL_CONV_FORWARD, 9, 0, NULL) == INT64_MAX,
              "bad %d tried", i);
    }
    CHECK(pl_workspace_conv(&good, PL_CONV_PASSES, 9, 0, NULL) == INT64_MAX, "no such pass");
}

static void other_cards_are_doubted_more(void) {
    for (int i = 0; i < ROWS; i++) {
        double there = 0;
        pl_workspace_conv(&rows[i].conv, rows[i].pass, 8, 0, &there);
        CHECK(there >= 0.3, "row %d: %g on 8.0", i, there);
        pl_workspace_conv(&rows[i].conv, rows[i].pass, 7, 5, &there);
        CHECK(there >= 0.5, "row %d: %g on 7.5", i, there);
    }
}

static void cublas(void) {
    CHECK(pl_workspace_cublas(9, 0) == 33554432, "9.0"); /* tv-resnet18-0 and nearly every other */
    CHECK(pl_workspace_cublas(8, 0) == 8519680, "8.0");
    CHECK(pl_workspace_cublaslt(9, 0) == 1048576, "cublasLt");
}

typedef struct attention_row {
    const char *source;
    bool backward;
    int64_t bytes;
    pl_attention attention;
} attention_row;

#define A(b, h, kv, q, k, e)                                                                       \
    .batch = b, .heads = h, .kv_heads = kv, .queries = q, .keys = k, .head = e, .value_head = e

static void attention(void) {
    static const attention_row table[] = {
        /* attention */
        {"tfm-0453",
         true,
         25559296,
         {PL_ATTENTION_CUDNN, A(16, 16, 16, 384, 384, 64), .dtype = PL_DT_F16}},
        {"tfm-0393",
         true,
         17301760,
         {PL_ATTENTION_CUDNN, A(16, 4, 4, 2048, 2048, 32), .dtype = PL_DT_BF16}},
        {"hf-llama-1b-0",
         true,
         135266560,
         {PL_ATTENTION_CUDNN, A(4, 32, 8, 2048, 2048, 64), .dtype = PL_DT_BF16}},
        {"hf-mistral-1b-0",
         true,
         16843008,
         {PL_ATTENTION_CUDNN, A(1, 16, 4, 1024, 1024, 128), .dtype = PL_DT_BF16}},
        {"hf-gemma3-1b-0",
         true,
         33620224,
         {PL_ATTENTION_CUDNN, A(4, 4, 1, 1024, 1024, 256), .dtype = PL_DT_BF16}},
        {"hf-bert-base-0",
         true,
         3244032,
         {PL_ATTENTION_EFFICIENT, A(4, 12, 12, 256, 256, 64), .dtype = PL_DT_F32}},
        {"hf-gpt2-0",
         true,
         12976128,
         {PL_ATTENTION_EFFICIENT, A(16, 12, 12, 256, 256, 64), .dtype = PL_DT_F32}},
        {"hf-bert-base-0",
         false,
         0,
         {PL_ATTENTION_EFFICIENT, A(4, 12, 12, 256, 256, 64), .dtype = PL_DT_F32}},
        /* end */
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int64_t bytes = pl_workspace_attention(&table[i].attention, table[i].backward, 9, 0, NULL);
        CHECK(llabs(bytes - table[i].bytes) <= EXACT, "%s: %lld, measured %lld", table[i].source,
              (long long)bytes, (long long)table[i].bytes);
    }
}

int main(void) {
    CHECK(ROWS >= 40, "%d rows", ROWS);
    convolutions_as_measured();
    benchmark_tries_at_least_what_it_keeps();
    one_dimension_runs_as_two();
    native_depthwise();
    nonsense_is_refused();
    other_cards_are_doubted_more();
    cublas();
    attention();
    printf("workspace: %d convolution rows, %d failures\n", ROWS, failures);
    return failures != 0;
}
