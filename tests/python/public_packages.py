"""diffusers' VQModel and transformers' Janus and Chameleon, as these packages have them: `nsvq import` makes models with their
tokens and pictures, and diffusers opens what `nsvq export --as diffusers` writes.

Run by ctest: run.sh public_packages.py NSVQ, the program. Skipped without the packages (pip install diffusers transformers).
"""

import pathlib
import sys
import tempfile

import layouts

try:
    from diffusers import VQModel
    from transformers import ChameleonVQVAEConfig, JanusVQVAEConfig
    from transformers.models.chameleon.modeling_chameleon import ChameleonVQVAE
    from transformers.models.janus.modeling_janus import JanusVQVAE
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import torch
from torch import nn
from torch.nn import functional as F

GRID = 16  # of SIDE pixels, by networks of two levels


class Packaged(layouts.Original):
    """A package's model, which chooses tokens by its own code in `own_tokens`."""

    def __init__(self, model):
        nn.Module.__init__(self)
        self.model, self.unit = model, False

    encoder, decoder, quantize, quant_conv = (property(lambda self, name=name: getattr(self.model, name))
                                              for name in ("encoder", "decoder", "quantize", "quant_conv"))

    def scores(self, latents, tokens):
        return -torch.cdist(latents.flatten(0, 2), self.quantize.embedding.weight)

    def own_tokens(self, pixels):
        found = self.quantize(self.latents(pixels).permute(0, 3, 1, 2))[2]
        return (found[2] if isinstance(found, tuple) else found).view(len(pixels), GRID, -1)

    def state_dict(self):
        return self.model.state_dict()

    def save(self, file):
        self.model.save_pretrained(file)


class Diffusers(Packaged):
    def pictures(self, tokens):
        shape = (*tokens.shape, self.quantize.embedding.weight.shape[1])
        return (self.model.decode(tokens.flatten(), force_not_quantize=True, shape=shape).sample + 1) * 127.5


class Janus(Packaged):
    def pictures(self, tokens):
        return (self.model.decode(tokens.flatten(1)) + 1) * 127.5


class Chameleon(Packaged):
    """The encoder's side is the package's; it has no decoder."""

    def __init__(self, model):
        super().__init__(model)
        model.decoder = layouts.families.TamingDecoder(layouts.CHAMELEON)
        model.decoder.post_quant_conv = nn.Identity()
        self.post_quant_conv = model.post_quant_conv

    def pictures(self, tokens):
        codes = self.quantize.embedding(tokens).permute(0, 3, 1, 2)
        return (self.decoder(self.post_quant_conv(codes)) + 1) * 127.5

    def own_tokens(self, pixels):
        return super().own_tokens(pixels).view(len(pixels), GRID // 8, -1)

    def save(self, file):
        layouts.in_safetensors(self.state_dict(), file / "model.safetensors")


def made(kind, model, grid=GRID):
    torch.manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_normal_(parameter)
    # Janus' package leaves out the norms of latents and codes: codes of norm 1 have equal tokens with and without them.
    model.quantize.embedding.weight.data = F.normalize(torch.randn(model.quantize.embedding.weight.shape), dim=1)
    packaged = kind(model).eval().requires_grad_(False)
    codes = len(model.quantize.embedding.weight)
    layouts.spread(packaged, layouts.pictures_of(2), torch.randint(codes, (2, grid, grid)))
    return packaged


def diffusers():
    return made(Diffusers, VQModel(
        down_block_types=("DownEncoderBlock2D", "AttnDownEncoderBlock2D"),
        up_block_types=("AttnUpDecoderBlock2D", "UpDecoderBlock2D"),
        block_out_channels=(32, 64), layers_per_block=2, latent_channels=12, num_vq_embeddings=64, vq_embed_dim=6,
        lookup_from_codebook=True, mid_block_add_attention=True, sample_size=layouts.SIDE))


def janus():
    return made(Janus, JanusVQVAE(JanusVQVAEConfig(
        base_channels=32, channel_multiplier=[1, 2], num_res_blocks=2, embed_dim=6, latent_channels=12, num_embeddings=64,
        num_patches=GRID)))


def chameleon():
    return made(Chameleon, ChameleonVQVAE(ChameleonVQVAEConfig(
        base_channels=32, channel_multiplier=[1, 1, 1, 1, 1], num_res_blocks=layouts.CHAMELEON["blocks"], embed_dim=256,
        latent_channels=16, num_embeddings=8192)), GRID // 8)


def save(model, file):
    model.save(file)


CASES = {
    "vqmodel": (diffusers, save, "diffusers' VQModel", "diffusers"),
    "janus": (janus, save, "Janus' VQ as transformers has it", ""),
    "chameleon": (chameleon, save, "Chameleon's VQGAN", ""),
}


class Test(layouts.Test):
    def compare_tokens(self, name, model, found):
        super().compare_tokens(name, model, found)
        own = model.own_tokens(self.pixels)
        equal = (own == found).double().mean().item()
        print(f"{name}: {equal:.1%} of the tokens are those of its package")
        assert equal > 0.95, name

    def check_export(self, model, imported, program):
        super().check_export(model, imported, program)
        again = VQModel.from_pretrained(self.folder / "again")
        for key in ("block_out_channels", "layers_per_block", "latent_channels", "num_vq_embeddings", "vq_embed_dim",
                    "norm_type", "act_fn", "mid_block_add_attention", "lookup_from_codebook", "down_block_types",
                    "up_block_types"):
            values = [one.config[key] for one in (again, model.model)]
            written, expected = (tuple(value) if isinstance(value, list) else value for value in values)
            assert written == expected, key
        latents = model.model.encode(self.pixels / 127.5 - 1).latents
        assert torch.equal(again.encode(self.pixels / 127.5 - 1).latents, latents)
        assert torch.equal(again.decode(latents).sample, model.model.decode(latents).sample)


def main(nsvq):
    layouts.CASES.update(CASES)
    layouts.NEAREST.update(["vqmodel", "janus"])
    with tempfile.TemporaryDirectory() as folder:
        test = Test(nsvq, pathlib.Path(folder))
        for name in CASES:
            test.check(name)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
