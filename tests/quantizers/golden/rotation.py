"""VQ with the rotation trick by vector-quantize-pytorch: writes rotation.json beside itself."""

from common import case, write
from vector_quantize import layer, quantize


def rotated(z, tensors):
    return quantize(layer(tensors["codebook"], commitment_weight=0.25, rotation_trick=True), z)


write(__file__, [
    case(["quantizer.type=vq", "quantizer.rotation=true", "quantizer.codes=7"], (2, 4, 2, 3),
         {"codebook": ((7, 4), 0.6, 1.7)}, rotated),
    # Channels of one number: the rotation is a sign, and opposite vectors meet.
    case(["quantizer.type=vq", "quantizer.rotation=true", "quantizer.codes=1"], (1, 1, 2, 3),
         {"codebook": ((1, 1), 0.6, 1.7)}, rotated),
])
