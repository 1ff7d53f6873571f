"""Writes convs.txt: every distinct convolution of torchvision's classification, segmentation and
video models, found by forward hooks on meta tensors.  One line each:
dims cin spatial cout kernel stride padding dilation groups (numbers joined by 'x').  Batch sizes and
types are chosen by convs.py.  Detection models are left out: they need real data."""
import sys

import torch
import torchvision


def shape_of(name):
    video = {"mvit_v1_b": (16, 224, 224), "mvit_v2_s": (16, 224, 224), "s3d": (16, 224, 224)}
    if name in video:
        return video[name]
    if name in ("r3d_18", "mc3_18", "r2plus1d_18", "swin3d_t", "swin3d_s", "swin3d_b"):
        return (16, 112, 112)
    if name == "inception_v3":
        return (299, 299)
    return (224, 224)


def main():
    skip = ("rcnn", "retinanet", "ssd", "fcos", "keypoint", "raft", "quantized")
    found = {}
    for name in torchvision.models.list_models():
        if any(s in name for s in skip):
            continue
        try:
            extra = {"weights": None}
            if "deeplab" in name or "fcn" in name or "lraspp" in name:
                extra["weights_backbone"] = None
            if "regnet" in name or "mvit" in name or "swin" in name:  # read values while they build
                if "128gf" in name or "32gf" in name:
                    continue
                model = torchvision.models.get_model(name, **extra).to("meta")
            else:
                with torch.device("meta"):
                    model = torchvision.models.get_model(name, **extra)
            model.train()

            def hook(m, args, out):
                x = args[0]
                if x.dim() < 3:
                    return
                key = (x.dim() - 2, x.shape[1], tuple(x.shape[2:]), m.out_channels, m.kernel_size,
                       m.stride, m.padding, m.dilation, m.groups)
                found[key] = name

            for m in model.modules():
                if isinstance(m, (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)):
                    m.register_forward_hook(hook)
            model(torch.empty(2, 3, *shape_of(name), device="meta"))
        except Exception as e:  # a model that meta tensors cannot run
            print(name, repr(e)[:120], file=sys.stderr)

    def j(t):
        return "x".join(str(v) for v in t) if isinstance(t, tuple) else str(t)

    for key in sorted(found):
        print(" ".join(j(k) for k in key))


main()
