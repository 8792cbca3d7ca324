"""Time of the gradients' sums over GPUs, on paper: communication_model.py

A ring all-reduce sends 2 (n - 1) / n of the bytes at the bus bandwidth. Buckets of 16 MiB start when the backward pass has their
last gradient, decoder first, then codebook (one tensor, so one bucket), then encoder; the discriminator's follow its own
backward pass, which is too short to hide them. Parameter counts are those that `nsvq train configs/imagenet-128.yaml` prints.
"""

ENCODER, DECODER, DISCRIMINATOR, DIM = 24_282_496, 39_851_907, 2_765_633, 128
BUCKET = 16 * 2**20
NETWORKS = {"NVLink": 380e9, "400 Gbit Ethernet": 42e9}  # bus bandwidth, bytes a second
# Milliseconds of the backward pass, batch 32, bf16, H200. A step of stage 2, which has no encoder's, is 8.8 ms shorter.
BACKWARD = {65_536: {"decoder": 12.0, "codebook": 0.5, "encoder": 8.0}, 2**20: {"decoder": 12.0, "codebook": 7.6, "encoder": 8.0}}
STEP = {65_536: 37.9, 2**20: 52.0}


def exposed(codes, ranks, bandwidth, width):
    """Milliseconds in which only the network works, and all milliseconds of the network."""
    factor = 2 * (ranks - 1) / ranks / bandwidth * 1e3
    parts = {"decoder": DECODER, "codebook": codes * DIM, "encoder": ENCODER}
    now = free = total = 0.0
    for name, count in parts.items():
        size = count * width
        buckets = 1 if name == "codebook" else -(-size // BUCKET)
        for i in range(buckets):
            ready = now + BACKWARD[codes][name] * (i + 1) / buckets
            free = max(free, ready) + size / buckets * factor
        now += BACKWARD[codes][name]
        total += size * factor
    last = DISCRIMINATOR * width * factor
    return free - now + last, total + last


def main():
    print("| codes | GPUs | network | sums | MB a step | ms | not hidden | hidden | of a step |\n|---|---|---|---|---|---|---|---|---|")
    for codes in BACKWARD:
        for network, bandwidth in NETWORKS.items():
            for ranks in (4, 8, 64):
                for kind, width in (("fp32", 4), ("bf16", 2)):
                    wait, total = exposed(codes, ranks, bandwidth, width)
                    size = (ENCODER + DECODER + DISCRIMINATOR + codes * DIM) * width / 1e6
                    print(f"| {codes} | {ranks} | {network} | {kind} | {size:.0f} | {total:.1f} | {wait:.1f} | {1 - wait / total:.0%} "
                          f"| {wait / STEP[codes]:.0%} |")


main()
