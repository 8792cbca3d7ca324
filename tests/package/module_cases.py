"""Modules of vector-quantize-pytorch and what they are given, for golden/make_modules.py and test_modules_parity.py."""

SEQUENCE, IMAGE = (2, 6, 8), (2, 8, 3, 2)

# name: (class, its options, shape of x, options of ours alone)
CASES = {
    "default": ("VectorQuantize", {"dim": 8, "codebook_size": 16}, SEQUENCE, {}),
    "straight": ("VectorQuantize", {"dim": 8, "codebook_size": 16, "rotation_trick": False, "decay": 0.9, "commitment_weight": 0.5},
                 SEQUENCE, {}),
    "cosine": ("VectorQuantize", {"dim": 8, "codebook_size": 16, "use_cosine_sim": True}, SEQUENCE, {}),
    "learnable": ("VectorQuantize", {"dim": 8, "codebook_size": 16, "learnable_codebook": True, "ema_update": False}, SEQUENCE, {}),
    "projected": ("VectorQuantize", {"dim": 8, "codebook_size": 16, "codebook_dim": 3, "layernorm_after_project_in": True},
                  SEQUENCE, {}),
    "channels_first": ("VectorQuantize", {"dim": 8, "codebook_size": 16, "channel_last": False}, (2, 8, 6), {}),
    "image": ("VectorQuantize", {"dim": 8, "codebook_size": 16, "accept_image_fmap": True}, IMAGE, {}),
    "heads": ("VectorQuantize", {"dim": 8, "codebook_size": 16, "heads": 2, "codebook_dim": 3}, SEQUENCE, {}),
    "separate_heads": ("VectorQuantize", {"dim": 8, "codebook_size": 16, "heads": 2, "codebook_dim": 4,
                                          "separate_codebook_per_head": True, "accept_image_fmap": True}, IMAGE, {}),
    "orthogonal": ("VectorQuantize", {"dim": 8, "codebook_size": 16, "orthogonal_reg_weight": 10, "learnable_codebook": True,
                                      "ema_update": False}, SEQUENCE, {}),
    "orthogonal_active": ("VectorQuantize", {"dim": 8, "codebook_size": 16, "orthogonal_reg_weight": 10, "ema_update": False,
                                             "orthogonal_reg_active_codes_only": True, "learnable_codebook": True}, SEQUENCE, {}),
    "one_token": ("VectorQuantize", {"dim": 8, "codebook_size": 16}, (5, 8), {}),
    "residual": ("ResidualVQ", {"dim": 8, "codebook_size": 16, "num_quantizers": 3}, SEQUENCE, {}),
    "residual_shared": ("ResidualVQ", {"dim": 8, "codebook_size": 16, "num_quantizers": 3, "shared_codebook": True}, SEQUENCE, {}),
    "residual_sizes": ("ResidualVQ", {"dim": 8, "codebook_size": (16, 8), "codebook_dim": 5}, SEQUENCE, {}),
    "grouped": ("GroupedResidualVQ", {"dim": 8, "codebook_size": 16, "num_quantizers": 2, "groups": 2}, SEQUENCE, {}),
    "simvq": ("SimVQ", {"dim": 8, "codebook_size": 16}, SEQUENCE, {}),
    "simvq_straight": ("SimVQ", {"dim": 8, "codebook_size": 16, "rotation_trick": False, "channel_first": True}, IMAGE, {}),
    "fsq": ("FSQ", {"levels": [5, 4, 3], "dim": 8}, SEQUENCE, {}),
    "fsq_codebooks": ("FSQ", {"levels": [5, 4], "num_codebooks": 4}, IMAGE, {}),
    "lfq": ("LFQ", {"codebook_size": 16, "dim": 8, "commitment_loss_weight": 0.3}, SEQUENCE, {"msb_first": True}),
    "lfq_spherical": ("LFQ", {"codebook_size": 16, "num_codebooks": 2, "spherical": True}, IMAGE, {"msb_first": True}),
}
MASKED = ("default", "straight", "residual")  # once more, with a mask
STEPS = 2


def names():
    return [*CASES, *(f"{name}_masked" for name in MASKED)]


def run(module, x, mask, weights):
    """Trains `module` for STEPS on x and evaluates it; the results by name. Learned parameters stay as they are, their
    gradients are among the results."""
    options = {} if mask is None else {"mask": mask}
    lfq = {"inv_temperature": 1.0} if type(module).__name__ == "LFQ" else {}
    results = {}
    module.train()
    for step in range(STEPS):
        z = (x + 0.25 * step).requires_grad_()
        quantized, indices, *loss = module(z, **options, **lfq)
        total = (quantized * weights).sum() + sum(one.sum() for one in loss)
        module.zero_grad()
        total.backward()
        results |= {f"quantized{step}": quantized, f"indices{step}": indices, f"gradient{step}": z.grad}
        results |= {f"loss{step}": one for one in loss}
        results |= {f"gradient{step}.{name}": one.grad for name, one in module.named_parameters() if one.grad is not None}
    module.eval()
    quantized, indices, *_ = module(x, **options)
    results |= {"quantized": quantized, "indices": indices}
    results |= {f"after.{name}": value for name, value in module.state_dict().items()}
    return {name: value.detach().clone() for name, value in results.items()}
