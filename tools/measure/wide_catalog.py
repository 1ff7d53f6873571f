"""Which jobs wide.py measures: three of each of timm's modules, decoders of segmentation_models_pytorch over several encoders, diffusers'
models made narrow, torchvision's detectors and segmenters, and every class of transformers' auto mappings with its default settings made
narrower. The batch here is a wish: wide.py halves it until the job's outputs fit (fit_batch)."""
import collections
import hashlib
import json
import lzma
import re
import sys

from wide import OPTIMIZERS, PRECISIONS, held_out

LARGE = re.compile(r"large|huge|giant|gigantic|so400m|so150m|xl|_l\d?_|_l\d?$|m36|m48|384|448|512|560|_7b|_b[4-8]|200|269|320|_h_|_g_|1536|3072|_x\d\d|_m_|_m$|101|152|72|96")

SKIP = re.compile(r"^test_|giant|gigantic|_7b|_so150m|_so400m|enormous")


def digest(text):
    return int(hashlib.sha1(text.encode()).hexdigest(), 16)


def timm_jobs():
    import timm
    from timm.models import _registry
    of = collections.defaultdict(list)
    for name in timm.list_models(pretrained=False):
        of[_registry._model_to_module[name]].append(name)
    for module, names in sorted(of.items()):
        names = sorted((n for n in names if not SKIP.search(n)), key=lambda n: (bool(LARGE.search(n)), digest("timm " + n)))
        yield module, [dict(kind="timm", name=name) for name in names], 3


SMP = {"Unet": {}, "UnetPlusPlus": {}, "MAnet": {}, "Linknet": {}, "FPN": {}, "PSPNet": {}, "PAN": {}, "DeepLabV3": {}, "DeepLabV3Plus": {}, "UPerNet": {},
       "Segformer": {}}
ENCODERS = ("resnet34", "efficientnet-b1", "mobilenet_v2", "mit_b0", "densenet121", "se_resnet50", "vgg13_bn", "resnext50_32x4d", "dpn68", "xception")


def smp_jobs():
    for i, name in enumerate(SMP):
        choice = [dict(kind="smp", name=name, encoder=ENCODERS[(i * 3 + j) % len(ENCODERS)], classes=(1 + 7 * j) + 1, side=(256, 224, 320)[j % 3] // 32 * 32)
                  for j in range(5)]
        yield "smp-" + name, choice, 2


# name: (settings, inputs, target); B is the batch
T = "B"
DIFFUSERS = {
    "UNet2DModel": (dict(sample_size=64, in_channels=3, out_channels=3, block_out_channels=(64, 128, 256), down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"), layers_per_block=2),
                    dict(sample=([T, 3, 64, 64], "normal"), timestep=([T], "int")), [T, 3, 64, 64]),
    "UNet2DConditionModel": (dict(sample_size=32, block_out_channels=(128, 256, 512), down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=512, attention_head_dim=8),
                             dict(sample=([T, 4, 32, 32], "normal"), timestep=([T], "int"), encoder_hidden_states=([T, 77, 512], "normal")), [T, 4, 32, 32]),
    "ControlNetModel": (dict(block_out_channels=(128, 256, 512), down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"), cross_attention_dim=512, attention_head_dim=8),
                        dict(sample=([T, 4, 32, 32], "normal"), timestep=([T], "int"), encoder_hidden_states=([T, 77, 512], "normal"), controlnet_cond=([T, 3, 256, 256], "normal")), [T, 128, 32, 32]),
    "AutoencoderKL": (dict(block_out_channels=(64, 128, 256), down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3, layers_per_block=2, latent_channels=4),
                      dict(sample=([T, 3, 128, 128], "normal")), [T, 3, 128, 128]),
    "VQModel": (dict(block_out_channels=(64, 128), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, layers_per_block=2, latent_channels=3, num_vq_embeddings=512),
                dict(sample=([T, 3, 128, 128], "normal")), [T, 3, 128, 128]),
    "AutoencoderTiny": (dict(), dict(sample=([T, 3, 128, 128], "normal")), [T, 3, 128, 128]),
    "AsymmetricAutoencoderKL": (dict(down_block_types=("DownEncoderBlock2D",) * 2, down_block_out_channels=(64, 128), layers_per_down_block=1, up_block_types=("UpDecoderBlock2D",) * 2, up_block_out_channels=(64, 128), layers_per_up_block=2),
                                dict(sample=([T, 3, 128, 128], "normal")), [T, 3, 128, 128]),
    "DiTTransformer2DModel": (dict(num_attention_heads=8, attention_head_dim=64, num_layers=6, sample_size=32, in_channels=4, out_channels=8),
                              dict(hidden_states=([T, 4, 32, 32], "normal"), timestep=([T], "int"), class_labels=([T], "int")), [T, 8, 32, 32]),
    "PixArtTransformer2DModel": (dict(num_attention_heads=8, attention_head_dim=64, num_layers=6, sample_size=32, cross_attention_dim=512, caption_channels=1024),
                                 dict(hidden_states=([T, 4, 32, 32], "normal"), timestep=([T], "int"), encoder_hidden_states=([T, 120, 1024], "normal")), [T, 8, 32, 32]),
    "SD3Transformer2DModel": (dict(sample_size=64, num_layers=6, attention_head_dim=64, num_attention_heads=8, caption_projection_dim=512, joint_attention_dim=1024, pooled_projection_dim=768),
                              dict(hidden_states=([T, 16, 64, 64], "normal"), encoder_hidden_states=([T, 154, 1024], "normal"), pooled_projections=([T, 768], "normal"), timestep=([T], "int")), [T, 16, 64, 64]),
    "FluxTransformer2DModel": (dict(num_layers=3, num_single_layers=4, attention_head_dim=64, num_attention_heads=8, joint_attention_dim=1024, pooled_projection_dim=768, axes_dims_rope=(16, 24, 24)),
                               dict(hidden_states=([T, 1024, 64], "normal"), encoder_hidden_states=([T, 256, 1024], "normal"), pooled_projections=([T, 768], "normal"), timestep=([T], "normal"), img_ids=([1024, 3], "normal"), txt_ids=([256, 3], "normal")), [T, 1024, 64]),
    "HunyuanDiT2DModel": (dict(num_attention_heads=8, attention_head_dim=64, num_layers=6, sample_size=32, cross_attention_dim=512, cross_attention_dim_t5=512, hidden_size=512, text_len=77, text_len_t5=64, pooled_projection_dim=512),
                          dict(hidden_states=([T, 4, 32, 32], "normal"), timestep=([T], "int"), encoder_hidden_states=([T, 77, 512], "normal"), text_embedding_mask=([T, 77], "normal"), encoder_hidden_states_t5=([T, 64, 512], "normal"), text_embedding_mask_t5=([T, 64], "normal"), image_meta_size=([T, 6], "normal"), style=([T], "zero"), image_rotary_emb=None), [T, 8, 32, 32]),
    "SanaTransformer2DModel": (dict(num_attention_heads=16, attention_head_dim=32, num_layers=6, num_cross_attention_heads=8, cross_attention_head_dim=64, cross_attention_dim=512, caption_channels=1024, sample_size=32, in_channels=32, out_channels=32),
                               dict(hidden_states=([T, 32, 32, 32], "normal"), encoder_hidden_states=([T, 120, 1024], "normal"), timestep=([T], "int")), [T, 32, 32, 32]),
    "AuraFlowTransformer2DModel": (dict(sample_size=64, num_mmdit_layers=2, num_single_dit_layers=4, attention_head_dim=64, num_attention_heads=8, joint_attention_dim=512, caption_projection_dim=512),
                                   dict(hidden_states=([T, 4, 64, 64], "normal"), encoder_hidden_states=([T, 120, 512], "normal"), timestep=([T], "normal")), [T, 4, 64, 64]),
    "CogVideoXTransformer3DModel": (dict(num_attention_heads=8, attention_head_dim=64, num_layers=4, sample_width=32, sample_height=32, sample_frames=9, text_embed_dim=1024, max_text_seq_length=64),
                                    dict(hidden_states=([T, 3, 16, 32, 32], "normal"), encoder_hidden_states=([T, 64, 1024], "normal"), timestep=([T], "int")), [T, 3, 16, 32, 32]),
    "WanTransformer3DModel": (dict(num_attention_heads=8, attention_head_dim=64, num_layers=6, ffn_dim=2048, text_dim=1024),
                              dict(hidden_states=([T, 16, 5, 32, 32], "normal"), timestep=([T], "int"), encoder_hidden_states=([T, 128, 1024], "normal")), [T, 16, 5, 32, 32]),
    "LTXVideoTransformer3DModel": (dict(num_attention_heads=8, attention_head_dim=64, cross_attention_dim=512, num_layers=6, caption_channels=1024),
                                   dict(hidden_states=([T, 1024, 128], "normal"), encoder_hidden_states=([T, 128, 1024], "normal"), timestep=([T], "int"), encoder_attention_mask=([T, 128], "ones"), num_frames=4, height=16, width=16), [T, 1024, 128]),
    "MochiTransformer3DModel": (dict(num_attention_heads=8, attention_head_dim=64, num_layers=4, pooled_projection_dim=512, text_embed_dim=1024),
                                dict(hidden_states=([T, 12, 4, 32, 32], "normal"), encoder_hidden_states=([T, 128, 1024], "normal"), timestep=([T], "int"), encoder_attention_mask=([T, 128], "ones")), [T, 12, 4, 32, 32]),
    "UNetSpatioTemporalConditionModel": (dict(sample_size=32, block_out_channels=(64, 128), down_block_types=("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"), up_block_types=("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"), num_attention_heads=(4, 8), cross_attention_dim=256, num_frames=4, addition_time_embed_dim=64, projection_class_embeddings_input_dim=192),
                                         dict(sample=([T, 4, 8, 32, 32], "normal"), timestep=([T], "int"), encoder_hidden_states=([T, 1, 256], "normal"), added_time_ids=([T, 3], "normal")), [T, 4, 4, 32, 32]),
    "UNet1DModel": (dict(sample_size=8192, in_channels=2, out_channels=2, extra_in_channels=16), dict(sample=([T, 2, 8192], "normal"), timestep=([T], "int")), [T, 2, 8192]),
    "UNet3DConditionModel": (dict(sample_size=32, block_out_channels=(64, 128), down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"), up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"), cross_attention_dim=256, attention_head_dim=32),
                             dict(sample=([T, 4, 4, 32, 32], "normal"), timestep=([T], "int"), encoder_hidden_states=([T, 77, 256], "normal")), [T, 4, 4, 32, 32]),
    "PriorTransformer": (dict(num_attention_heads=8, attention_head_dim=64, num_layers=8, embedding_dim=512, num_embeddings=77, additional_embeddings=4),
                         dict(hidden_states=([T, 512], "normal"), timestep=([T], "int"), proj_embedding=([T, 512], "normal"), encoder_hidden_states=([T, 77, 512], "normal")), [T, 512]),
    "UVit2DModel": (dict(hidden_size=512, block_out_channels=512, cond_embed_dim=512, encoder_hidden_size=512, num_hidden_layers=6, num_attention_heads=8, intermediate_size=1408, block_num_heads=8, micro_cond_embed_dim=1280, sample_size=32),
                    dict(input_ids=([T, 32, 32], "int"), encoder_hidden_states=([T, 77, 512], "normal"), pooled_text_emb=([T, 512], "normal"), micro_conds=([T, 5], "normal")), [T, 8192, 32, 32]),
    "LatteTransformer3DModel": (dict(num_attention_heads=8, attention_head_dim=64, num_layers=4, sample_size=32, caption_channels=512, cross_attention_dim=512, in_channels=4, out_channels=8, norm_type="ada_norm_single", patch_size=2, video_length=4, activation_fn="gelu-approximate", attention_bias=True, norm_elementwise_affine=False),
                                dict(hidden_states=([T, 4, 4, 32, 32], "normal"), timestep=([T], "int"), encoder_hidden_states=([T, 64, 512], "normal")), [T, 8, 4, 32, 32]),
    "Lumina2Transformer2DModel": (dict(sample_size=32, hidden_size=512, num_layers=4, num_attention_heads=8, num_kv_heads=4, axes_dim_rope=(16, 24, 24), cap_feat_dim=512),
                                  dict(hidden_states=([T, 16, 32, 32], "normal"), timestep=([T], "normal"), encoder_hidden_states=([T, 64, 512], "normal"), encoder_attention_mask=([T, 64], "true")), [T, 16, 32, 32]),
    "AllegroTransformer3DModel": (dict(num_attention_heads=8, attention_head_dim=96, num_layers=4, cross_attention_dim=768, caption_channels=512, sample_height=32, sample_width=32, sample_frames=4),
                                  dict(hidden_states=([T, 4, 4, 32, 32], "normal"), encoder_hidden_states=([T, 64, 512], "normal"), timestep=([T], "int")), [T, 4, 4, 32, 32]),
    "QwenImageTransformer2DModel": (dict(num_layers=4, attention_head_dim=64, num_attention_heads=8, joint_attention_dim=1024, axes_dims_rope=(16, 24, 24)),
                                    dict(hidden_states=([T, 256, 64], "normal"), encoder_hidden_states=([T, 64, 1024], "normal"), timestep=([T], "normal"), encoder_hidden_states_mask=([T, 64], "true"), img_shapes=[[(1, 16, 16)]]), [T, 256, 64]),
    "T2IAdapter": (dict(channels=(64, 128, 256, 256), num_res_blocks=2), dict(x=([T, 3, 256, 256], "normal")), [T, 64, 32, 32]),
}


def diffusers_jobs():
    for name, row in DIFFUSERS.items():
        if row:
            plain = all(isinstance(v, tuple) for v in row[1].values())
            if plain:
                yield name, [dict(kind="diffusers", name=name, settings=row[0], inputs=row[1], target=row[2])], 1


# torchvision's detectors train on pictures with boxes; segment: classes of a pixel.
TORCHVISION = {"ssdlite320_mobilenet_v3_large": "detection", "ssd300_vgg16": "detection", "retinanet_resnet50_fpn": "detection", "fcos_resnet50_fpn": "detection",
               "fasterrcnn_mobilenet_v3_large_320_fpn": "detection", "fasterrcnn_resnet50_fpn": "detection", "fcn_resnet50": "segmentation",
               "deeplabv3_mobilenet_v3_large": "segmentation", "lraspp_mobilenet_v3_large": "segmentation"}


def torchvision_jobs():
    for name, part in TORCHVISION.items():
        yield name, [(dict(kind="torchvision", name=name, part=part, side=320 if "320" in name else 384), dict(loss="own" if part == "detection" else "ce"))], 1


AUTOS = {"causal": "AutoModelForCausalLM", "masked": "AutoModelForMaskedLM", "seq2seq": "AutoModelForSeq2SeqLM", "images": "AutoModelForImageClassification",
         "audio": "AutoModelForAudioClassification", "segment": "AutoModelForSemanticSegmentation", "detect": "AutoModelForObjectDetection"}
MAPPINGS = {"causal": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "masked": "MODEL_FOR_MASKED_LM_MAPPING_NAMES", "seq2seq": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
            "images": "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES", "audio": "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
            "segment": "MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES", "detect": "MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES"}


def transformers_jobs():
    from transformers import CONFIG_MAPPING
    from transformers.models.auto import modeling_auto

    from config_check import narrowed
    for task, auto in AUTOS.items():
        for name in getattr(modeling_auto, MAPPINGS[task]):
            try:
                config = narrowed(CONFIG_MAPPING[name])
                if getattr(config, "pad_token_id", None) is None or config.pad_token_id >= 8000:
                    config.pad_token_id = 0
                if task == "seq2seq" and getattr(config, "decoder_start_token_id", 0) is None:
                    config.decoder_start_token_id = 0
                text = dict(json.loads(config.to_json_string(use_diff=True)), model_type=name)
            except Exception as e:
                print("left out:", name, repr(e)[:120], file=sys.stderr)
                continue
            d = digest(auto + name)
            job = dict(kind="transformers", config=text)
            yield name, [(job, dict(auto=auto, task=task, loss="own", **(dict(seq=(256, 384, 512)[d % 3]) if task in ("causal", "masked", "seq2seq") else {}),
                                   **({"checkpoint": True} if task == "causal" and d // 19 % 8 == 0 else {})))], 1


def timm_shape(name):
    import timm
    config = timm.get_pretrained_cfg(name)
    shape = list(config.input_size) if config is not None else [3, 224, 224]
    if config is not None and config.fixed_input_size is False and shape[-1] > 288:
        shape = [3, 224, 224]
    return shape


def batch_wish(kind, task, d):
    if task == "images":
        return (8, 16, 24)[d % 3]
    choice = {"timm": (16, 24, 32, 48, 64), "smp": (4, 6, 8), "diffusers": (2, 4, 6), "torchvision": (2, 4), "transformers": (2, 3, 4, 8)}[kind]
    return choice[d % len(choice)]


def candidates(sources):
    for source in sources:
        for arch, choices, wanted in source():
            for choice in choices[:wanted]:
                model, extra = choice if isinstance(choice, tuple) else (choice, {})
                kind, task = model["kind"], extra.get("task")
                if kind == "timm":
                    model["shape"] = timm_shape(model["name"])
                d = digest(extra.get("auto", model.get("name", "")) + model.get("encoder", "") + arch)
                short = {"smp": "%s-%s" % (model.get("name"), model.get("encoder")), "transformers": "%s-%s" % (task, arch)}.get(kind, model.get("name", ""))
                yield {**dict(id="w-%s-%s" % (kind[:2], short.replace("/", "_").replace(".", "_")), source=kind, model=model, arch=arch,
                              held_out=held_out(arch), batch=batch_wish(kind, task, d // 7), precision=PRECISIONS[d // 11 % 6],
                              optimizer=OPTIMIZERS[d // 13 % 6], loss={"diffusers": "mse", "torchvision": "own", "transformers": "own"}.get(kind, "ce"),
                              cudnn_tf32=True, **({"channels_last": True} if kind in ("timm", "smp") and d // 17 % 8 == 0 else {})), **extra}


def make(path):
    jobs = list(candidates((timm_jobs, smp_jobs, diffusers_jobs, torchvision_jobs, transformers_jobs)))
    with lzma.open(path, "wt") as f:
        for job in sorted(jobs, key=lambda j: digest(j["id"])):
            f.write(json.dumps(job, separators=(",", ":")) + "\n")
    print("%d jobs, %d architectures, %d of them set aside" % (len(jobs), len({j["arch"] for j in jobs}), len({j["arch"] for j in jobs if j["held_out"]})))
