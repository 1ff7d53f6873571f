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
    {"tv-regnet_x_3_2gf-0", "none", PL_CONV_FORWARD, 400,
     {C(2, 64, 432, 1008, 1), .in = {14, 14}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"cnn-0518", "none", PL_CONV_FORWARD, 400,
     {C(2, 4, 32, 128, 1), .in = {64, 64}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {64, 64}, TF32}},
    {"tv-fcn_resnet50-0", "none", PL_CONV_FORWARD, 0,
     {C(2, 4, 64, 64, 1), .in = {56, 56}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"convs", "none", PL_CONV_FORWARD, 0,
     {C(2, 2, 320, 24, 1), .in = {7, 7}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {7, 7}, BF16}},
    {"convs", "none", PL_CONV_FORWARD, 0,
     {C(2, 1, 512, 1024, 1), .in = {7, 7}, .kernel = {2, 2}, .stride = {2, 2},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {3, 3}, F32}},
    {"convs", "none", PL_CONV_FORWARD, 0,
     {C(2, 4, 96, 576, 1), .in = {17, 17}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {17, 17}, BF16}},
    {"tv-fcn_resnet50-0", "small", PL_CONV_FORWARD, 400,
     {C(2, 4, 512, 1024, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {28, 28}, TF32}},
    {"tv-deeplabv3_resnet50-0", "small", PL_CONV_FORWARD, 400,
     {C(2, 8, 256, 1024, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {28, 28}, TF32}},
    {"tv-deeplabv3_resnet50-0", "small", PL_CONV_FORWARD, 400,
     {C(2, 8, 1024, 512, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {28, 28}, TF32}},
    {"convs", "small", PL_CONV_FORWARD, 400,
     {C(2, 48, 256, 256, 1), .in = {70, 70}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {70, 70}, TF32}},
    {"convs", "small", PL_CONV_FORWARD, 832,
     {C(2, 2, 432, 18, 1), .in = {1, 1}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {1, 1}, F16, .benchmark = true}},
    {"convs", "small", PL_CONV_FORWARD, 131,
     {C(2, 48, 32, 256, 1), .in = {140, 140}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {140, 140}, TF32, .channels_last = true}},
    {"tv-resnet50-0", "converted", PL_CONV_FORWARD, 41549840,
     {C(2, 64, 512, 512, 1), .in = {14, 14}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {7, 7}, TF32}},
    {"cnn-1536", "converted", PL_CONV_FORWARD, 8323344,
     {C(2, 16, 163, 16, 1), .in = {28, 28}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {28, 28}, TF32, .channels_last = true}},
    {"tv-resnet18-0", "converted", PL_CONV_FORWARD, 205668499,
     {C(2, 128, 64, 64, 1), .in = {56, 56}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"convs", "converted", PL_CONV_FORWARD, 13346832,
     {C(2, 64, 1824, 304, 1), .in = {7, 7}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {7, 7}, F16}},
    {"convs", "converted", PL_CONV_FORWARD, 4426768,
     {C(2, 64, 408, 912, 1), .in = {7, 7}, .kernel = {1, 1}, .stride = {2, 2},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {4, 4}, F16}},
    {"convs", "converted", PL_CONV_FORWARD, 4835344,
     {C(3, 1, 45, 64, 1), .in = {16, 56, 56}, .kernel = {3, 1, 1}, .stride = {1, 1, 1},
      .padding = {1, 0, 0}, .dilation = {1, 1, 1}, .out = {16, 56, 56}, F16, .channels_last = true}},
    {"cnn-0818", "converted-unpadded", PL_CONV_FORWARD, 34832,
     {C(2, 8, 32, 32, 1), .in = {4, 4}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {4, 4}, BF16}},
    {"tv-resnext50_32x4d-0", "converted-unpadded", PL_CONV_FORWARD, 205539475,
     {C(2, 64, 128, 128, 32), .in = {56, 56}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"tv-regnet_y_400mf-0", "converted-unpadded", PL_CONV_FORWARD, 385365651,
     {C(2, 128, 48, 48, 6), .in = {112, 112}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"convs", "converted-unpadded", PL_CONV_FORWARD, 147718291,
     {C(2, 128, 896, 2048, 1), .in = {14, 14}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, F16}},
    {"convs", "converted-unpadded", PL_CONV_FORWARD, 2508816,
     {C(2, 32, 672, 128, 1), .in = {7, 7}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {7, 7}, F16}},
    {"convs", "converted-unpadded", PL_CONV_FORWARD, 1806352,
     {C(2, 16, 1024, 128, 1), .in = {7, 7}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {7, 7}, BF16}},
    {"convs", "x-and-w", PL_CONV_FORWARD, 1509950176,
     {C(2, 128, 20, 1, 1), .in = {384, 384}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {384, 384}, TF32}},
    {"cnn-0120", "converted-power", PL_CONV_FORWARD, 94576787,
     {C(2, 32, 32, 128, 1), .in = {96, 96}, .kernel = {5, 5}, .stride = {1, 1},
      .padding = {2, 2}, .dilation = {1, 1}, .out = {96, 96}, BF16}},
    {"tv-resnet101-0", "converted-power", PL_CONV_FORWARD, 8028176,
     {C(2, 16, 2048, 512, 1), .in = {7, 7}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {7, 7}, TF32}},
    {"tv-regnet_y_400mf-0", "converted-power", PL_CONV_FORWARD, 83522963,
     {C(2, 128, 104, 104, 13), .in = {28, 28}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {28, 28}, TF32}},
    {"convs", "converted-power", PL_CONV_FORWARD, 2817808,
     {C(2, 6, 16, 64, 1), .in = {54, 54}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {54, 54}, F16}},
    {"convs", "converted-power", PL_CONV_FORWARD, 2154512,
     {C(2, 2, 512, 512, 32), .in = {28, 28}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {14, 14}, F16}},
    {"convs", "converted-power", PL_CONV_FORWARD, 1455120,
     {C(2, 8, 784, 784, 49), .in = {7, 7}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {7, 7}, F16}},
    {"tv-regnet_y_400mf-0", "converted-fp32", PL_CONV_FORWARD, 385365651,
     {C(2, 128, 48, 48, 6), .in = {112, 112}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"tv-resnext50_32x4d-0", "converted-fp32", PL_CONV_FORWARD, 205539475,
     {C(2, 64, 128, 128, 32), .in = {56, 56}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"convs", "converted-fp32", PL_CONV_FORWARD, 1157648,
     {C(3, 4, 20, 96, 1), .in = {8, 8, 8}, .kernel = {3, 3, 3}, .stride = {1, 1, 1},
      .padding = {1, 1, 1}, .dilation = {1, 1, 1}, .out = {8, 8, 8}, F32, .channels_last = true}},
    {"convs", "converted-fp32", PL_CONV_BACKWARD_DATA, 357662736,
     {C(3, 4, 1280, 160, 1), .in = {2, 64, 64}, .kernel = {3, 3, 3}, .stride = {2, 2, 2},
      .padding = {1, 1, 1}, .dilation = {1, 1, 1}, .out = {4, 128, 128}, F32, .transposed = true, .channels_last = true}},
    {"convs", "converted-fp32", PL_CONV_FORWARD, 22921232,
     {C(3, 4, 96, 128, 1), .in = {8, 28, 28}, .kernel = {1, 3, 3}, .stride = {1, 1, 1},
      .padding = {0, 1, 1}, .dilation = {1, 1, 1}, .out = {8, 28, 28}, F32, .channels_last = true}},
    {"convs", "converted-fp32", PL_CONV_FORWARD, 6119440,
     {C(2, 1, 64, 96, 1), .in = {96, 96}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {96, 96}, F32, .channels_last = true}},
    {"cnn-0705", "converted-always", PL_CONV_FORWARD, 4849680,
     {C(2, 4, 512, 512, 1), .in = {4, 4}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {4, 4}, F16}},
    {"cnn-0818", "converted-always", PL_CONV_FORWARD, 34832,
     {C(2, 8, 32, 32, 1), .in = {4, 4}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {4, 4}, BF16}},
    {"tv-regnet_y_400mf-0", "converted-always", PL_CONV_FORWARD, 385365651,
     {C(2, 128, 48, 48, 6), .in = {112, 112}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"convs", "converted-always", PL_CONV_FORWARD, 6119440,
     {C(2, 1, 64, 96, 1), .in = {96, 96}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {96, 96}, F32, .channels_last = true}},
    {"convs", "converted-always", PL_CONV_FORWARD, 232390672,
     {C(2, 256, 192, 384, 1), .in = {28, 28}, .kernel = {2, 2}, .stride = {2, 2},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, F32, .channels_last = true}},
    {"convs", "converted-always", PL_CONV_FORWARD, 30205536,
     {C(2, 24, 720, 720, 6), .in = {14, 14}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {14, 14}, F32, .channels_last = true}},
    {"tv-deeplabv3_resnet50-0", "none", PL_CONV_BACKWARD_DATA, 0,
     {C(2, 8, 64, 64, 1), .in = {56, 56}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"tv-squeezenet1_0-0", "none", PL_CONV_BACKWARD_DATA, 0,
     {C(2, 16, 512, 64, 1), .in = {13, 13}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {13, 13}, TF32}},
    {"tv-googlenet-0", "none", PL_CONV_BACKWARD_DATA, 0,
     {C(2, 128, 512, 128, 1), .in = {4, 4}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {4, 4}, TF32}},
    {"convs", "none", PL_CONV_BACKWARD_DATA, 0,
     {C(2, 128, 864, 128, 1), .in = {3, 3}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {3, 3}, TF32}},
    {"convs", "none", PL_CONV_BACKWARD_DATA, 0,
     {C(2, 64, 120, 336, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {28, 28}, BF16}},
    {"convs", "none", PL_CONV_BACKWARD_DATA, 272,
     {C(2, 8, 320, 80, 1), .in = {1, 1}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {1, 1}, TF32, .benchmark = true}},
    {"tv-deeplabv3_resnet50-0", "small", PL_CONV_BACKWARD_DATA, 400,
     {C(2, 8, 1024, 512, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {28, 28}, TF32}},
    {"tv-resnext50_32x4d-0", "small", PL_CONV_BACKWARD_DATA, 400,
     {C(2, 64, 64, 128, 1), .in = {56, 56}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"tv-densenet121-0", "small", PL_CONV_BACKWARD_DATA, 400,
     {C(2, 128, 576, 128, 1), .in = {14, 14}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"convs", "small", PL_CONV_BACKWARD_DATA, 400,
     {C(2, 32, 1280, 640, 1), .in = {14, 14}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"convs", "small", PL_CONV_BACKWARD_DATA, 400,
     {C(2, 64, 720, 720, 1), .in = {14, 14}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"convs", "small", PL_CONV_BACKWARD_DATA, 400,
     {C(2, 128, 2048, 192, 1), .in = {8, 8}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {8, 8}, TF32}},
    {"tv-r3d_18-0", "converted", PL_CONV_BACKWARD_DATA, 64225427,
     {C(3, 16, 128, 256, 1), .in = {8, 28, 28}, .kernel = {1, 1, 1}, .stride = {2, 2, 2},
      .padding = {0, 0, 0}, .dilation = {1, 1, 1}, .out = {4, 14, 14}, TF32}},
    {"cnn-0457", "converted", PL_CONV_BACKWARD_DATA, 141328,
     {C(2, 48, 41, 4, 1), .in = {5, 5}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {5, 5}, BF16}},
    {"tv-deeplabv3_resnet50-0", "converted", PL_CONV_BACKWARD_DATA, 16646291,
     {C(2, 8, 128, 128, 1), .in = {56, 56}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {28, 28}, TF32}},
    {"convs", "converted", PL_CONV_BACKWARD_DATA, 2359312,
     {C(1, 8, 128, 1280, 1), .in = {32}, .kernel = {5}, .stride = {1},
      .padding = {2}, .dilation = {1}, .out = {32}, F16}},
    {"convs", "converted", PL_CONV_BACKWARD_DATA, 298188947,
     {C(2, 20, 640, 2048, 1), .in = {12, 16}, .kernel = {7, 7}, .stride = {1, 1},
      .padding = {3, 3}, .dilation = {1, 1}, .out = {12, 16}, TF32}},
    {"convs", "converted", PL_CONV_BACKWARD_DATA, 101343507,
     {C(2, 32, 1537, 2, 1), .in = {32, 32}, .kernel = {1, 1}, .stride = {2, 2},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {16, 16}, F16, .channels_last = true}},
    {"tv-efficientnet_b0-0", "converted-unpadded", PL_CONV_BACKWARD_DATA, 272,
     {C(2, 32, 20, 480, 1), .in = {1, 1}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {1, 1}, TF32}},
    {"tv-googlenet-0", "converted-unpadded", PL_CONV_BACKWARD_DATA, 27295891,
     {C(2, 128, 832, 256, 1), .in = {7, 7}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {7, 7}, TF32}},
    {"tv-deeplabv3_resnet50-0", "converted-unpadded", PL_CONV_BACKWARD_DATA, 76677136,
     {C(2, 8, 2048, 256, 1), .in = {28, 28}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {36, 36}, .dilation = {36, 36}, .out = {28, 28}, TF32}},
    {"convs", "converted-unpadded", PL_CONV_BACKWARD_DATA, 496,
     {C(2, 12, 384, 2304, 1), .in = {7, 7}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {7, 7}, TF32, .channels_last = true}},
    {"convs", "converted-unpadded", PL_CONV_BACKWARD_DATA, 12844896,
     {C(2, 8, 720, 720, 6), .in = {28, 28}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {14, 14}, BF16}},
    {"convs", "converted-unpadded", PL_CONV_BACKWARD_DATA, 7551504,
     {C(2, 32, 2064, 344, 1), .in = {7, 7}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {7, 7}, BF16}},
    {"hf-wav2vec2-base-0", "converted-power", PL_CONV_BACKWARD_DATA, 42459283,
     {C(1, 2, 512, 512, 1), .in = {6399}, .kernel = {3}, .stride = {2},
      .padding = {0}, .dilation = {1}, .out = {3199}, TF32}},
    {"tv-vgg16-0", "converted-power", PL_CONV_BACKWARD_DATA, 35127312,
     {C(2, 32, 512, 512, 1), .in = {14, 14}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"tv-r3d_18-0", "converted-power", PL_CONV_BACKWARD_DATA, 16056467,
     {C(3, 16, 256, 512, 1), .in = {4, 14, 14}, .kernel = {1, 1, 1}, .stride = {2, 2, 2},
      .padding = {0, 0, 0}, .dilation = {1, 1, 1}, .out = {2, 7, 7}, TF32}},
    {"convs", "converted-power", PL_CONV_BACKWARD_DATA, 154143123,
     {C(2, 128, 3, 16, 1), .in = {224, 224}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {112, 112}, F16}},
    {"convs", "converted-power", PL_CONV_BACKWARD_DATA, 131,
     {C(2, 256, 256, 256, 1), .in = {14, 14}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {7, 7}, F16, .channels_last = true}},
    {"convs", "converted-power", PL_CONV_BACKWARD_DATA, 3728,
     {C(2, 1, 4, 3, 1), .in = {4, 4}, .kernel = {5, 5}, .stride = {1, 1},
      .padding = {2, 2}, .dilation = {1, 1}, .out = {4, 4}, BF16}},
    {"tv-regnet_x_3_2gf-0", "converted-fp32", PL_CONV_BACKWARD_DATA, 193007680,
     {C(2, 64, 192, 192, 4), .in = {56, 56}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {28, 28}, TF32}},
    {"tv-deeplabv3_resnet50-0", "converted-fp32", PL_CONV_BACKWARD_DATA, 76677136,
     {C(2, 8, 2048, 256, 1), .in = {28, 28}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {24, 24}, .dilation = {24, 24}, .out = {28, 28}, TF32}},
    {"tv-deeplabv3_resnet50-0", "converted-fp32", PL_CONV_BACKWARD_DATA, 76677136,
     {C(2, 8, 2048, 256, 1), .in = {28, 28}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {36, 36}, .dilation = {36, 36}, .out = {28, 28}, TF32}},
    {"convs", "converted-fp32", PL_CONV_BACKWARD_DATA, 3342352,
     {C(2, 1, 192, 48, 1), .in = {56, 56}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, F32, .channels_last = true}},
    {"convs", "converted-fp32", PL_CONV_BACKWARD_DATA, 9928720,
     {C(2, 32, 128, 128, 1), .in = {17, 17}, .kernel = {1, 7}, .stride = {1, 1},
      .padding = {0, 3}, .dilation = {1, 1}, .out = {17, 17}, F32, .channels_last = true}},
    {"convs", "converted-fp32", PL_CONV_BACKWARD_DATA, 6119440,
     {C(2, 1, 64, 96, 1), .in = {96, 96}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {96, 96}, F32, .channels_last = true}},
    {"tv-regnet_x_3_2gf-0", "converted-always", PL_CONV_BACKWARD_DATA, 193007680,
     {C(2, 64, 192, 192, 4), .in = {56, 56}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {28, 28}, TF32}},
    {"tv-deeplabv3_resnet50-0", "converted-always", PL_CONV_BACKWARD_DATA, 76677136,
     {C(2, 8, 2048, 256, 1), .in = {28, 28}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {24, 24}, .dilation = {24, 24}, .out = {28, 28}, TF32}},
    {"tv-regnet_x_3_2gf-0", "converted-always", PL_CONV_BACKWARD_DATA, 385517600,
     {C(2, 64, 96, 96, 2), .in = {112, 112}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"convs", "converted-always", PL_CONV_BACKWARD_DATA, 853049664,
     {C(3, 16, 2048, 128, 2), .in = {4, 56, 56}, .kernel = {3, 3, 3}, .stride = {1, 1, 1},
      .padding = {0, 0, 0}, .dilation = {1, 1, 1}, .out = {2, 54, 54}, BF16}},
    {"convs", "converted-always", PL_CONV_BACKWARD_DATA, 56422976,
     {C(2, 8, 224, 224, 4), .in = {112, 112}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, F16}},
    {"convs", "converted-always", PL_CONV_BACKWARD_DATA, 12844896,
     {C(2, 8, 720, 720, 6), .in = {28, 28}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {14, 14}, BF16}},
    {"tv-regnet_y_400mf-0", "none", PL_CONV_BACKWARD_WEIGHT, 0,
     {C(2, 128, 26, 208, 1), .in = {1, 1}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {1, 1}, TF32}},
    {"tv-efficientnet_b0-0", "none", PL_CONV_BACKWARD_WEIGHT, 0,
     {C(2, 32, 4, 96, 1), .in = {1, 1}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {1, 1}, TF32}},
    {"tv-mobilenet_v3_small-0", "none", PL_CONV_BACKWARD_WEIGHT, 0,
     {C(2, 32, 8, 16, 1), .in = {1, 1}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {1, 1}, TF32}},
    {"convs", "none", PL_CONV_BACKWARD_WEIGHT, 0,
     {C(2, 128, 44, 1056, 1), .in = {1, 1}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {1, 1}, F16}},
    {"convs", "none", PL_CONV_BACKWARD_WEIGHT, 0,
     {C(2, 6, 16, 256, 1), .in = {1, 1}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {1, 1}, F32, .channels_last = true}},
    {"convs", "none", PL_CONV_BACKWARD_WEIGHT, 0,
     {C(2, 5, 12, 640, 1), .in = {112, 112}, .kernel = {1, 1}, .stride = {2, 2},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {56, 56}, F32}},
    {"convs", "small", PL_CONV_BACKWARD_WEIGHT, 1104,
     {C(2, 128, 720, 192, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {28, 28}, F32}},
    {"convs", "small", PL_CONV_BACKWARD_WEIGHT, 672,
     {C(2, 64, 432, 192, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {28, 28}, F32}},
    {"convs", "small", PL_CONV_BACKWARD_WEIGHT, 800,
     {C(2, 256, 320, 320, 1), .in = {14, 14}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, F32}},
    {"convs", "small", PL_CONV_BACKWARD_WEIGHT, 432,
     {C(2, 64, 288, 192, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {28, 28}, F32}},
    {"convs", "small", PL_CONV_BACKWARD_WEIGHT, 800,
     {C(2, 256, 320, 320, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {28, 28}, F32}},
    {"convs", "small", PL_CONV_BACKWARD_WEIGHT, 672,
     {C(2, 96, 432, 192, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {28, 28}, F32}},
    {"cnn-1448", "converted", PL_CONV_BACKWARD_WEIGHT, 7506067,
     {C(2, 62, 252, 264, 1), .in = {8, 8}, .kernel = {5, 5}, .stride = {1, 1},
      .padding = {2, 2}, .dilation = {1, 1}, .out = {8, 8}, F16}},
    {"cnn-1657", "converted", PL_CONV_BACKWARD_WEIGHT, 4644880,
     {C(2, 24, 336, 336, 1), .in = {12, 12}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {12, 12}, BF16}},
    {"cnn-1662", "converted", PL_CONV_BACKWARD_WEIGHT, 1072912,
     {C(2, 24, 112, 120, 1), .in = {6, 6}, .kernel = {5, 5}, .stride = {1, 1},
      .padding = {2, 2}, .dilation = {1, 1}, .out = {6, 6}, BF16}},
    {"convs", "converted", PL_CONV_BACKWARD_WEIGHT, 231211024,
     {C(2, 256, 256, 2048, 1), .in = {14, 14}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, BF16}},
    {"convs", "converted", PL_CONV_BACKWARD_WEIGHT, 46268432,
     {C(2, 32, 1024, 1024, 1), .in = {7, 7}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {4, 4}, F32}},
    {"convs", "converted", PL_CONV_BACKWARD_WEIGHT, 12358803,
     {C(2, 20, 323, 1024, 1), .in = {4, 4}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {2, 2}, TF32, .channels_last = true}},
    {"convs", "converted-unpadded", PL_CONV_BACKWARD_WEIGHT, 1363787792,
     {C(2, 16, 384, 160, 1), .in = {224, 224}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {112, 112}, F32}},
    {"convs", "converted-unpadded", PL_CONV_BACKWARD_WEIGHT, 2709520,
     {C(3, 8, 832, 32, 1), .in = {2, 7, 7}, .kernel = {1, 1, 1}, .stride = {1, 1, 1},
      .padding = {0, 0, 0}, .dilation = {1, 1, 1}, .out = {2, 7, 7}, F32}},
    {"convs", "converted-unpadded", PL_CONV_BACKWARD_WEIGHT, 135725072,
     {C(2, 64, 640, 384, 1), .in = {8, 8}, .kernel = {11, 11}, .stride = {1, 1},
      .padding = {5, 5}, .dilation = {1, 1}, .out = {8, 8}, F32}},
    {"convs", "converted-unpadded", PL_CONV_BACKWARD_WEIGHT, 114458640,
     {C(2, 64, 896, 896, 7), .in = {28, 28}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {14, 14}, F16}},
    {"convs", "converted-unpadded", PL_CONV_BACKWARD_WEIGHT, 96337936,
     {C(3, 6, 64, 128, 1), .in = {16, 56, 56}, .kernel = {1, 1, 1}, .stride = {2, 2, 2},
      .padding = {0, 0, 0}, .dilation = {1, 1, 1}, .out = {8, 28, 28}, F32}},
    {"convs", "converted-unpadded", PL_CONV_BACKWARD_WEIGHT, 384,
     {C(2, 16, 768, 48, 1), .in = {1, 1}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {1, 1}, F32, .channels_last = true}},
    {"convs", "x-and-w", PL_CONV_BACKWARD_WEIGHT, 655376,
     {C(2, 32, 512, 128, 1), .in = {4, 4}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {4, 4}, F16, .benchmark = true}},
    {"convs", "x-and-w", PL_CONV_BACKWARD_WEIGHT, 655376,
     {C(2, 32, 512, 128, 1), .in = {4, 4}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {4, 4}, BF16, .benchmark = true}},
    {"tv-squeezenet1_0-0", "per-image", PL_CONV_BACKWARD_WEIGHT, 2097152,
     {C(2, 16, 512, 64, 1), .in = {13, 13}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {13, 13}, TF32}},
    {"cnn-1657", "per-image", PL_CONV_BACKWARD_WEIGHT, 2654208,
     {C(2, 24, 144, 192, 1), .in = {24, 24}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {24, 24}, BF16}},
    {"tv-efficientnet_b0-0", "per-image", PL_CONV_BACKWARD_WEIGHT, 6881680,
     {C(2, 32, 480, 112, 1), .in = {14, 14}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"convs", "per-image", PL_CONV_BACKWARD_WEIGHT, 10223616,
     {C(2, 48, 416, 128, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {28, 28}, BF16}},
    {"convs", "per-image", PL_CONV_BACKWARD_WEIGHT, 24576,
     {C(2, 2, 32, 96, 1), .in = {56, 56}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {56, 56}, TF32}},
    {"convs", "per-image", PL_CONV_BACKWARD_WEIGHT, 73728,
     {C(2, 2, 192, 48, 1), .in = {35, 35}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {35, 35}, TF32}},
    {"convs", "winograd", PL_CONV_BACKWARD_WEIGHT, 1045168128,
     {C(2, 24, 128, 256, 1), .in = {112, 112}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {112, 112}, F32}},
    {"convs", "winograd", PL_CONV_BACKWARD_WEIGHT, 227229696,
     {C(2, 32, 160, 768, 1), .in = {28, 28}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {28, 28}, F32}},
    {"convs", "winograd", PL_CONV_BACKWARD_WEIGHT, 54779904,
     {C(2, 12, 128, 32, 1), .in = {56, 56}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, F32}},
    {"convs", "winograd", PL_CONV_BACKWARD_WEIGHT, 59572224,
     {C(2, 8, 64, 192, 1), .in = {56, 56}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, F32}},
    {"convs", "winograd", PL_CONV_BACKWARD_WEIGHT, 3483949824,
     {C(2, 128, 193, 48, 1), .in = {112, 112}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {112, 112}, F32}},
    {"convs", "winograd", PL_CONV_BACKWARD_WEIGHT, 9621504,
     {C(2, 2, 128, 32, 1), .in = {56, 56}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {56, 56}, F32}},
    {"tv-vgg16-0", "converted-slices-64", PL_CONV_BACKWARD_WEIGHT, 824296103,
     {C(2, 32, 64, 64, 1), .in = {224, 224}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {224, 224}, TF32}},
    {"tv-regnet_y_400mf-0", "converted-slices-64", PL_CONV_BACKWARD_WEIGHT, 64717455,
     {C(2, 128, 104, 208, 1), .in = {28, 28}, .kernel = {1, 1}, .stride = {2, 2},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"tv-vgg16_bn-0", "converted-slices-64", PL_CONV_BACKWARD_WEIGHT, 1646379687,
     {C(2, 64, 64, 64, 1), .in = {224, 224}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {224, 224}, TF32}},
    {"convs", "converted-slices-64", PL_CONV_BACKWARD_WEIGHT, 2163423,
     {C(3, 128, 128, 128, 1), .in = {4, 14, 14}, .kernel = {3, 1, 1}, .stride = {1, 1, 1},
      .padding = {1, 0, 0}, .dilation = {1, 1, 1}, .out = {4, 14, 14}, TF32, .channels_last = true}},
    {"convs", "converted-slices-64", PL_CONV_BACKWARD_WEIGHT, 1770063,
     {C(2, 32, 768, 192, 1), .in = {17, 17}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {17, 17}, F16, .channels_last = true}},
    {"convs", "converted-slices-64", PL_CONV_BACKWARD_WEIGHT, 197787792,
     {C(2, 2, 48, 1280, 1), .in = {192, 192}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {192, 192}, BF16}},
    {"tv-resnet50-0", "converted-slices-128", PL_CONV_BACKWARD_WEIGHT, 73663071,
     {C(2, 64, 256, 256, 1), .in = {28, 28}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"tv-googlenet-0", "converted-slices-128", PL_CONV_BACKWARD_WEIGHT, 47973031,
     {C(2, 128, 128, 256, 1), .in = {14, 14}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"tv-googlenet-0", "converted-slices-128", PL_CONV_BACKWARD_WEIGHT, 98615975,
     {C(2, 128, 96, 128, 1), .in = {28, 28}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {28, 28}, TF32}},
    {"convs", "converted-slices-128", PL_CONV_BACKWARD_WEIGHT, 106740319,
     {C(3, 16, 128, 460, 1), .in = {8, 28, 28}, .kernel = {1, 3, 3}, .stride = {1, 2, 2},
      .padding = {0, 1, 1}, .dilation = {1, 1, 1}, .out = {8, 14, 14}, TF32}},
    {"convs", "converted-slices-128", PL_CONV_BACKWARD_WEIGHT, 45048199,
     {C(3, 24, 160, 320, 1), .in = {4, 14, 14}, .kernel = {1, 3, 3}, .stride = {1, 1, 1},
      .padding = {0, 1, 1}, .dilation = {1, 1, 1}, .out = {4, 14, 14}, TF32}},
    {"convs", "converted-slices-128", PL_CONV_BACKWARD_WEIGHT, 8258199,
     {C(3, 32, 128, 192, 1), .in = {8, 28, 28}, .kernel = {1, 3, 3}, .stride = {1, 1, 1},
      .padding = {0, 1, 1}, .dilation = {1, 1, 1}, .out = {8, 28, 28}, TF32, .channels_last = true}},
    {"convs", "converted-slices-256", PL_CONV_BACKWARD_WEIGHT, 17301760,
     {C(2, 32, 768, 128, 1), .in = {17, 17}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {17, 17}, TF32, .channels_last = true}},
    {"tv-resnet18-0", "converted-power", PL_CONV_BACKWARD_WEIGHT, 43253776,
     {C(2, 128, 256, 512, 1), .in = {14, 14}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {7, 7}, TF32}},
    {"tv-resnet101-0", "converted-power", PL_CONV_BACKWARD_WEIGHT, 19267600,
     {C(2, 16, 1024, 2048, 1), .in = {14, 14}, .kernel = {1, 1}, .stride = {2, 2},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {7, 7}, TF32}},
    {"tv-resnext50_32x4d-0", "converted-power", PL_CONV_BACKWARD_WEIGHT, 38535184,
     {C(2, 64, 2048, 1024, 1), .in = {7, 7}, .kernel = {1, 1}, .stride = {1, 1},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {7, 7}, TF32}},
    {"convs", "converted-power", PL_CONV_BACKWARD_WEIGHT, 6725779,
     {C(2, 2, 512, 512, 1), .in = {28, 28}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {14, 14}, BF16}},
    {"convs", "converted-power", PL_CONV_BACKWARD_WEIGHT, 15499280,
     {C(2, 24, 256, 512, 1), .in = {28, 28}, .kernel = {2, 2}, .stride = {2, 2},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, BF16}},
    {"convs", "converted-power", PL_CONV_BACKWARD_WEIGHT, 34734096,
     {C(3, 16, 512, 512, 1), .in = {2, 7, 7}, .kernel = {3, 3, 3}, .stride = {1, 1, 1},
      .padding = {1, 1, 1}, .dilation = {1, 1, 1}, .out = {2, 7, 7}, F32}},
    {"tv-vit_l_16-0", "converted-fp32", PL_CONV_BACKWARD_WEIGHT, 17039504,
     {C(2, 8, 3, 1024, 1), .in = {224, 224}, .kernel = {16, 16}, .stride = {16, 16},
      .padding = {0, 0}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"convs", "converted-fp32", PL_CONV_BACKWARD_WEIGHT, 47973072,
     {C(2, 12, 512, 512, 1), .in = {28, 28}, .kernel = {3, 3}, .stride = {1, 1},
      .padding = {4, 4}, .dilation = {4, 4}, .out = {28, 28}, TF32}},
    {"convs", "converted-fp32", PL_CONV_BACKWARD_WEIGHT, 228917264,
     {C(2, 64, 896, 896, 7), .in = {28, 28}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {14, 14}, TF32}},
    {"convs", "converted-fp32", PL_CONV_BACKWARD_WEIGHT, 4202320,
     {C(3, 4, 1, 1, 1), .in = {8, 64, 64}, .kernel = {5, 5, 5}, .stride = {1, 1, 1},
      .padding = {4, 4, 4}, .dilation = {2, 2, 2}, .out = {8, 64, 64}, F32}},
    {"convs", "converted-fp32", PL_CONV_BACKWARD_WEIGHT, 20392152,
     {C(2, 48, 160, 192, 1), .in = {17, 17}, .kernel = {7, 1}, .stride = {1, 1},
      .padding = {3, 0}, .dilation = {1, 1}, .out = {17, 17}, TF32}},
    {"convs", "converted-fp32", PL_CONV_BACKWARD_WEIGHT, 1142620176,
     {C(3, 64, 32, 512, 1), .in = {8, 32, 32}, .kernel = {3, 3, 3}, .stride = {1, 1, 1},
      .padding = {1, 1, 1}, .dilation = {1, 1, 1}, .out = {8, 32, 32}, F32}},
    {"convs", "converted-always", PL_CONV_BACKWARD_WEIGHT, 135725072,
     {C(2, 64, 640, 384, 1), .in = {8, 8}, .kernel = {11, 11}, .stride = {1, 1},
      .padding = {5, 5}, .dilation = {1, 1}, .out = {8, 8}, F32}},
    {"convs", "converted-always", PL_CONV_BACKWARD_WEIGHT, 3244096,
     {C(2, 2, 1536, 256, 4), .in = {12, 12}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {2, 2}, .dilation = {2, 2}, .out = {24, 24}, BF16, .transposed = true}},
    {"convs", "converted-always", PL_CONV_BACKWARD_WEIGHT, 19453456,
     {C(3, 5, 12, 160, 1), .in = {8, 32, 32}, .kernel = {3, 3, 3}, .stride = {1, 1, 1},
      .padding = {0, 0, 0}, .dilation = {1, 1, 1}, .out = {6, 30, 30}, F32}},
    {"convs", "converted-always", PL_CONV_BACKWARD_WEIGHT, 516730896,
     {C(2, 32, 1280, 20, 1), .in = {56, 56}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {28, 28}, F32}},
    {"convs", "converted-always", PL_CONV_BACKWARD_WEIGHT, 94109843,
     {C(3, 256, 512, 1152, 1), .in = {2, 7, 7}, .kernel = {1, 3, 3}, .stride = {1, 1, 1},
      .padding = {0, 1, 1}, .dilation = {1, 1, 1}, .out = {2, 7, 7}, BF16}},
    {"convs", "converted-always", PL_CONV_BACKWARD_WEIGHT, 1363787792,
     {C(2, 16, 384, 160, 1), .in = {224, 224}, .kernel = {3, 3}, .stride = {2, 2},
      .padding = {1, 1}, .dilation = {1, 1}, .out = {112, 112}, F32}},
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
        /* clang-format off */
        {"tfm-0453", true, 25559296, {PL_ATTENTION_CUDNN, A(16, 16, 16, 384, 384, 64), .dtype = PL_DT_F16}},
        {"tfm-0393", true, 17301760, {PL_ATTENTION_CUDNN, A(16, 4, 4, 2048, 2048, 32), .dtype = PL_DT_BF16}},
        {"hf-llama-1b-0", true, 135266560, {PL_ATTENTION_CUDNN, A(4, 32, 8, 2048, 2048, 64), .dtype = PL_DT_BF16}},
        {"hf-mistral-1b-0", true, 16843008, {PL_ATTENTION_CUDNN, A(1, 16, 4, 1024, 1024, 128), .dtype = PL_DT_BF16}},
        {"hf-gemma3-1b-0", true, 33620224, {PL_ATTENTION_CUDNN, A(4, 4, 1, 1024, 1024, 256), .dtype = PL_DT_BF16}},
        {"hf-bert-base-0", true, 3244032, {PL_ATTENTION_EFFICIENT, A(4, 12, 12, 256, 256, 64), .dtype = PL_DT_F32}},
        {"hf-gpt2-0", true, 12976128, {PL_ATTENTION_EFFICIENT, A(16, 12, 12, 256, 256, 64), .dtype = PL_DT_F32}},
        {"tfm-0952", true, 136445952, {PL_ATTENTION_EFFICIENT, A(32, 8, 8, 2048, 2048, 32), .dtype = PL_DT_F32}},
        {"hf-bert-base-0", false, 0, {PL_ATTENTION_EFFICIENT, A(4, 12, 12, 256, 256, 64), .dtype = PL_DT_F32}},
        {"rnn-sdpa", true, 71762176, {PL_ATTENTION_CUDNN, A(32, 20, 20, 384, 384, 72), .dtype = PL_DT_BF16}},
        {"rnn-sdpa", true, 663808, {PL_ATTENTION_CUDNN, A(4, 8, 8, 64, 64, 80), .dtype = PL_DT_BF16}},
        {"rnn-sdpa", true, 49248256, {PL_ATTENTION_CUDNN, A(4, 12, 3, 500, 500, 256), .dtype = PL_DT_BF16}},
        {"rnn-sdpa", true, 14352640, {PL_ATTENTION_CUDNN, A(32, 4, 4, 384, 384, 72), .dtype = PL_DT_BF16}},
        {"rnn-sdpa", true, 208256, {PL_ATTENTION_CUDNN, A(8, 1, 1, 100, 100, 64), .dtype = PL_DT_F16}},
        {"rnn-sdpa", true, 23929600, {PL_ATTENTION_CUDNN, A(8, 16, 16, 577, 577, 80), .dtype = PL_DT_BF16}},
        {"rnn-sdpa", true, 18981248, {PL_ATTENTION_CUDNN, A(2, 16, 16, 577, 577, 256), .dtype = PL_DT_BF16}},
        {"rnn-sdpa", true, 663808, {PL_ATTENTION_CUDNN, A(16, 2, 2, 64, 64, 80), .dtype = PL_DT_BF16}},
        {"rnn-sdpa", true, 18981888, {PL_ATTENTION_EFFICIENT, A(3, 4, 4, 2048, 2048, 160), .dtype = PL_DT_F32}},
        {"rnn-sdpa", true, 1065600, {PL_ATTENTION_EFFICIENT, A(1, 8, 8, 500, 500, 64), .dtype = PL_DT_F32}},
        {"rnn-sdpa", true, 532992, {PL_ATTENTION_EFFICIENT, A(16, 1, 1, 128, 333, 32), .dtype = PL_DT_F32}},
        {"rnn-sdpa", true, 2110784, {PL_ATTENTION_EFFICIENT, A(2, 8, 8, 197, 197, 128), .dtype = PL_DT_F32}},
        {"rnn-sdpa", true, 2114560, {PL_ATTENTION_EFFICIENT, A(4, 2, 2, 512, 512, 72), .dtype = PL_DT_F32}},
        {"rnn-sdpa", true, 25427968, {PL_ATTENTION_EFFICIENT, A(16, 16, 16, 128, 128, 192), .dtype = PL_DT_F32}},
        {"rnn-sdpa", true, 6319616, {PL_ATTENTION_EFFICIENT, A(8, 4, 4, 196, 333, 192), .dtype = PL_DT_F32}},
        /* clang-format on */
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
