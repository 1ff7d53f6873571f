"""What cuDNN's convolution engines ask for, as formulas: the same as in src/device/workspace_conv.c, in the same order.

The structure was found by taking the measured bytes apart (H200, cuDNN 9.19, 2026-11-15):
- Tensor-core engines want channels last with channels a multiple of 16 bytes. Given anything else they convert
  x, w, y into the workspace: the sum of the converted tensors, plus 16 bytes, plus 131 for some.
- Weight gradients sum over batch and space; they are cut into slices, each with an fp32 partial result of whole tiles.
- Other weight gradients hold 1 to 132 whole fp32 weights; what sets the number was not found.
- The 1x1 weight gradient in NCHW is one product per image: batch times the weight in fp32.
- Winograd F(4x4, 3x3) holds 36 values per tile for x, y and w, in fp32.
A transposed convolution is the plain one with input and output, forward and backward-data changing places."""
from rows import SIZE, product

SMS = 132  # the H200's; engines cut their work by it
PASSES = ("forward", "backward_data", "backward_weight")


class Shape:
    """A row as the formulas see it: the plain convolution x [n, c, s] -> y [n, k, p], r weights per channel pair."""

    def __init__(self, row):
        x, y, self.pass_ = row["x"], row["y"], PASSES.index(row["pass"])
        if row["transposed"]:
            x, y = y, x
            self.pass_ = (1, 0, 2)[self.pass_]
        self.dims = max(2, len(x) - 2)
        self.n, self.c, self.k, self.g = x[0], x[1], y[1], row["groups"]
        self.s, self.p, self.r = product(x[2:]), product(y[2:]), product(row["w"][2:])
        self.xs, self.ys, self.ws = x[2:], y[2:], row["w"][2:]
        self.e = SIZE[row["dtype"]]
        self.stride = max(row["stride"])
        self.dilation = max(row["dilation"])
        self.padding = max(row["padding"])
        self.last = row["channels_last"]
        self.tf32 = row["tf32"] or self.e == 2
        self.bf16 = row["dtype"] == "bfloat16"
        self.transposed = row["transposed"]
        self.benchmark = row["benchmark"]


def up(value, step):
    return (value + step - 1) // step * step


def power(value):
    result = 1
    while result < value:
        result *= 2
    return result


def weight4(d):
    """The weight in fp32."""
    return d.k * (d.c // d.g) * d.r * 4


def padded(d, step, pow2=False):
    c, k = up(d.c // d.g, step), up(d.k // d.g, step)
    if pow2:
        c, k = power(c), power(k)
    return c, k


def converted(d, step, pow2=False):
    """x, w and y in channels last, channels padded to a multiple of step; nothing for one that is so already."""
    c, k = padded(d, step, pow2)
    padc, padk = c != d.c // d.g, k != d.k // d.g
    x = d.n * c * d.g * d.s * d.e if padc or (not d.last and d.s > 1 and d.c > 1) else 0
    y = d.n * k * d.g * d.p * d.e if padk or (not d.last and d.p > 1 and d.k > 1) else 0
    w = c * k * d.g * d.r * d.e if padc or padk or (not d.last and d.r > 1 and d.c > d.g) else 0
    return x + y + w


def everything(d):
    return (d.n * d.c * d.s + d.n * d.k * d.p + d.k * (d.c // d.g) * d.r) * d.e


def converted32(d):
    """The same with every tensor turned into fp32 besides, as some engines do for half precision."""
    c, k = padded(d, 4)
    return (d.n * c * d.g * d.s + d.n * k * d.g * d.p + c * k * d.g * d.r) * 4


def tiles(rows, columns, m, n):
    return -(-rows // m) * -(-columns // n)


def slices(d, m, n):
    """fp32 partial results of a weight gradient cut into as many slices as keep every multiprocessor busy."""
    t = tiles(d.k // d.g, (d.c // d.g) * d.r, m, n) * d.g
    count = max(1, SMS // t) if t < SMS else 1
    return min(count * t, 2 * SMS) * m * n * 4


def stream(d):
    """The last, incomplete wave of 128x128 tiles is shared by all multiprocessors: two partial tiles each."""
    rows, columns = (d.n * d.p, d.k) if d.pass_ == 0 else (d.n * d.s, d.c)
    return tiles(rows, columns, 128, 128) % SMS * 131072


def split(d, count):
    """A weight gradient in count slices, each a whole fp32 weight with the channels padded."""
    c, k = padded(d, step16(d))
    return converted(d, step16(d)) + count * c * k * d.g * d.r * 4 + 144


def x_and_w(d, step):
    """The input and the weight converted, the output written as it is wanted."""
    c = up(d.c // d.g, step)
    return (d.n * c * d.g * d.s + d.k * c * d.r) * d.e + 16


def winograd(d):
    t = d.n
    for size in d.ys:
        t *= -(-size // 4)
    return 36 * (t * (d.c + d.k) + d.c * d.k) * 4


def fourier(d):
    """Bytes of one channel's transform: the next powers of two that hold the filtered image, complex fp32, half of it.
    Backward-data needs room for one more."""
    least = 16 if d.pass_ == 0 else 17
    size = [power(max(a + b - 1, least)) for a, b in zip(d.xs, d.ws)]
    return product(size[:-1]) * (size[-1] // 2 + 1) * 8


def fft(d):
    return ((d.c // d.g) * d.k + d.n * (d.c + d.k)) * fourier(d)


def fft_both(d):
    """With the weights' transform kept in two orders."""
    return fft(d) + (d.c // d.g) * d.k * (fourier(d) + 4 * d.r)


def fft_tiles(d):
    """In tiles of 32 x 32 (half of it, complex fp32), two tiles of every image at a time."""
    return ((d.c // d.g) * d.k + 2 * d.n * (d.c + d.k)) * 32 * 17 * 8


def evenness(value):
    """The lowest bit set: 1 for odd numbers, up to 64."""
    return min(value & -value, 64)


def step16(d):
    return 16 // d.e


CLASSES = (
    ("none", lambda d: 0),
    ("small", lambda d: 400),
    ("converted", lambda d: converted(d, step16(d)) + 147),
    ("converted-unpadded", lambda d: converted(d, 1) + 16),
    ("x-and-w", lambda d: x_and_w(d, 1)),
    ("per-image", lambda d: d.n * weight4(d) + 400),
    ("winograd", winograd),
    ("converted-slices-64", lambda d: converted(d, step16(d)) + slices(d, 64, 64) + 679),
    ("converted-slices-128", lambda d: converted(d, step16(d)) + slices(d, 128, 128) + 679),
    ("converted-slices-256", lambda d: converted(d, step16(d)) + slices(d, 256, 128) + 679),
    ("converted-power", lambda d: converted(d, step16(d), True) + 147),
    ("converted-stream", lambda d: converted(d, step16(d)) + stream(d) + 431),
    ("converted-fp32", lambda d: converted32(d) + 16),
    ("converted-always", lambda d: everything(d) + 16),
    ("slice-8-pixels", lambda d: everything(d) + (d.n * d.p // 8 + d.n * d.p // 384) * weight4(d)),
    ("fft", fft),
    ("fft-both", fft_both),
    ("fft-tiles", fft_tiles),
    ("x-and-w-padded", lambda d: x_and_w(d, step16(d))),
    ("split-1", lambda d: split(d, 1)),
    ("split-8", lambda d: split(d, 8)),
    ("split-23", lambda d: split(d, 23)),
    ("split-60", lambda d: split(d, 60)),
    ("split-122", lambda d: split(d, 122)),
    ("converted-slices-64x128", lambda d: converted(d, step16(d)) + slices(d, 64, 128) + 679),
)

# What the tree may ask of a shape; the order is that of the C table.
FEATURES = (
    ("half", lambda d: d.e == 2),
    ("bf16", lambda d: d.bf16),
    ("tf32", lambda d: d.tf32),
    ("channels_last", lambda d: d.last),
    ("dims", lambda d: d.dims),
    ("batch", lambda d: d.n),
    ("c_per_group", lambda d: d.c // d.g),
    ("k_per_group", lambda d: d.k // d.g),
    ("c", lambda d: d.c),
    ("k", lambda d: d.k),
    ("groups", lambda d: d.g),
    ("in_volume", lambda d: d.s),
    ("out_volume", lambda d: d.p),
    ("in_width", lambda d: d.xs[-1]),
    ("kernel_volume", lambda d: d.r),
    ("kernel_width", lambda d: d.ws[-1]),
    ("stride", lambda d: d.stride),
    ("dilation", lambda d: d.dilation),
    ("padding", lambda d: d.padding),
    ("c_unaligned", lambda d: d.c // d.g % step16(d) != 0),
    ("k_unaligned", lambda d: d.k // d.g % step16(d) != 0),
    ("n_out", lambda d: d.n * d.p),
    ("n_in", lambda d: d.n * d.s),
    ("reduction", lambda d: d.c // d.g * d.r),
    ("x_elements", lambda d: d.n * d.c * d.s),
    ("y_elements", lambda d: d.n * d.k * d.p),
    ("w_elements", lambda d: d.k * (d.c // d.g) * d.r),
    ("tiles_forward", lambda d: tiles(d.n * d.p, d.k // d.g, 128, 128)),
    ("tiles_weight", lambda d: tiles(d.k // d.g, d.c // d.g * d.r, 128, 128)),
    ("macs", lambda d: d.n * d.p * d.k * (d.c // d.g) * d.r),
    ("transposed", lambda d: d.transposed),
    # the weight per image against input and output, which says what one product per image costs
    ("benchmark", lambda d: d.benchmark),
    ("image_share", lambda d: 1000.0 * d.n * d.k * (d.c // d.g) * d.r / (d.n * (d.c * d.s + d.k * d.p))),
    ("tiles_data", lambda d: tiles(d.n * d.s, d.c // d.g, 128, 128)),
    ("wave_forward", lambda d: tiles(d.n * d.p, d.k // d.g, 128, 128) % SMS),
    ("wave_data", lambda d: tiles(d.n * d.s, d.c // d.g, 128, 128) % SMS),
    ("c_evenness", lambda d: evenness(d.c // d.g)),
    ("k_evenness", lambda d: evenness(d.k // d.g)),
    ("c_by_k", lambda d: 1000.0 * d.c / d.k),
    ("row_elements", lambda d: d.xs[-1] * (d.c // d.g)),
    ("tiles_weight_64", lambda d: tiles(d.k // d.g, d.c // d.g * d.r, 64, 64)),
)


def native_depthwise(row):
    """Whether PyTorch runs its own depthwise kernel, which takes no workspace.
    Read in aten/src/ATen/native/Convolution.cpp (use_cudnn_depthwise and what it calls), in words of our own."""
    x, w, g = row["x"], row["w"], row["groups"]
    if row["transposed"] or g == 1 or x[1] != g or w[0] % g:
        return False
    if row["channels_last"]:
        return False
    if len(x) == 3:
        x, w, stride = x[:2] + [1] + x[2:], w[:2] + [1] + w[2:], [1] + row["stride"]
    else:
        stride = row["stride"]
    if row["dtype"] != "float16" or len(x) != 4 or max(row["dilation"]) > 1 or x[1] < 32:
        return True
    if not (stride[0] == stride[1] or x[2] == 1):
        return True
    if x[2] == 1 and stride[1] == 1:
        return False
    if w[2] != w[3] or w[3] not in (1, 3, 5) or x[3] < 7:
        return True
    if stride[1] == 1:
        return False
    if stride[1] != 2:
        return True
    if x[0] == 1:
        return w[3] == 1 and x[3] > 28
    if w[3] == 1:
        return not (x[0] <= 16 and x[1] >= 128 and x[3] <= 7)
    return not (x[1] >= 512 or (x[1] >= 256 and x[3] >= 28))
