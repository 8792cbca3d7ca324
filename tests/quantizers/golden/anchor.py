"""CVQ-VAE's update of codes towards the closest latents, from its equations in numpy: writes anchor.json beside itself.
One similarity chooses a latent's code and a code's latent.

The inputs are a formula that the C++ test repeats, so the file holds results alone.
"""

import json
import pathlib

import numpy


def formula(shape, scale, phase):
    n = int(numpy.prod(shape))
    return (scale * numpy.sin(0.7 * numpy.arange(n) ** 1.3 + phase)).reshape(shape)


def unit(rows):
    return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)


def similarity(distance, z, codebook):
    """[latents, codes]"""
    if distance == "cosine":
        return unit(z) @ unit(codebook).T
    return -((z[:, None] - codebook[None]) ** 2).sum(-1)


cases = []
for n, codes, dim, decay, distance in [(60, 5, 3, 0.99, "cosine"), (200, 40, 4, 0.99, "cosine"),
                                       (60, 5, 3, 0.5, "l2"), (200, 40, 4, 0.99, "l2")]:
    codebook = formula((codes, dim), 0.6, 1.7)
    share = numpy.zeros(codes)
    steps = []
    for number in range(3):
        z = formula((n, dim), 0.8, 0.1 + number)
        alike = similarity(distance, z, codebook)
        winners = alike.argmax(1)
        usage = numpy.bincount(winners, minlength=codes) / n
        share = decay * share + (1 - decay) * usage
        way = numpy.exp(-share * codes * 10 / (1 - decay) - 1e-3)[:, None]
        anchors = z[alike.argmax(0)]
        codebook = (1 - way) * codebook + way * anchors
        steps.append({"share": share.tolist(), "codebook_norms": numpy.linalg.norm(codebook, axis=1).tolist()})
    steps[-1]["codebook"] = codebook.flatten().tolist()
    cases.append({"n": n, "codes": codes, "dim": dim, "decay": decay, "distance": distance, "steps": steps})

short = json.loads(json.dumps(cases), parse_float=lambda x: float(f"{float(x):.8g}"))
pathlib.Path(__file__).with_name("anchor.json").write_text(json.dumps(short) + "\n")
