"""The rotation trick of vector-quantize-pytorch behind plain VQ: writes rotation.json beside itself."""

from common import case, mse, nearest, places, rows, write
from vector_quantize_pytorch.vector_quantize_pytorch import rotate_to


def quantize(z, tensors):
    flat, codebook = rows(z), tensors["codebook"]
    q = nearest(flat, codebook)
    codes = codebook[q]
    loss = mse(codes, flat.detach()) + 0.25 * mse(flat, codes.detach())
    return loss, q, places(rotate_to(flat, codes.detach()), z)


write(__file__, [
    case(["quantizer.type=vq", "quantizer.rotation=true", "quantizer.codes=7"], (2, 4, 2, 3),
         {"codebook": ((7, 4), 0.6, 1.7)}, quantize),
    # Channels of one number: the rotation is a sign, and opposite vectors meet.
    case(["quantizer.type=vq", "quantizer.rotation=true", "quantizer.codes=1"], (1, 1, 2, 3),
         {"codebook": ((1, 1), 0.6, 1.7)}, quantize),
])
