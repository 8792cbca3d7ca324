"""Draws the pictures of docs/ from the CSV files beside them: python docs/figures/draw.py [--check]

With --check nothing is written; exit code 1 if a picture differs from its CSV."""
import csv
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent
COLOURS = ["#0072b2", "#d55e00", "#009e73"]
PANEL, GAP, ROW, TOP = 190, 24, 17, 44


def rows(name):
    with open(DOCS / name, newline="") as file:
        return list(csv.DictReader(file))


def text(x, y, words, anchor="start", fill="#333", weight=400):
    words = str(words).replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-weight="{weight}">{words}</text>'


def line(x1, y1, x2, y2, colour="#e4e4e4"):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def dot_plot(labels, panels, series=()):
    """SVG of one line a label and one panel a figure. `panels`: (title, ticks, points), where points are
    (line, value, series) and ticks span the axis."""
    first = 24 + 6.2 * max(map(len, labels))
    height = TOP + ROW * len(labels) + 26 + (16 if series else 0)
    width = round(first + len(panels) * (PANEL + GAP))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>']
    bottom = TOP + ROW * len(labels)
    for i, label in enumerate(labels):
        y = TOP + ROW * (i + 0.5)
        out += [text(first - 10, y + 4, label, "end"), line(first, y, width - GAP, y, "#f2f2f2")]
    for p, (title, ticks, points) in enumerate(panels):
        left = first + p * (PANEL + GAP)
        x = lambda v: left + PANEL * (v - ticks[0]) / (ticks[-1] - ticks[0])
        out.append(text(left + PANEL / 2, 18, title, "middle", weight=600))
        for tick in ticks:
            out += [line(x(tick), TOP - 6, x(tick), bottom), text(x(tick), TOP - 12, f"{tick:g}", "middle", "#777")]
        for row, value, kind in points:
            out.append(f'<circle cx="{x(value):.1f}" cy="{TOP + ROW * (row + 0.5):.1f}" r="3.6" '
                       f'fill="{COLOURS[kind]}" fill-opacity="0.8"><title>{labels[row]}: {value:g}</title></circle>')
    for k, name in enumerate(series):
        x = first + 180 * k
        out += [f'<circle cx="{x}" cy="{bottom + 20}" r="3.6" fill="{COLOURS[k]}"/>', text(x + 9, bottom + 24, name)]
    return "\n".join(out + ["</svg>"]) + "\n"


def table1():
    data = rows("results/table1-5000-steps.csv")
    mean = lambda name: (lambda v: sum(v) / len(v))([float(r["psnr_db"]) for r in data if r["row"] == name])
    names = sorted({r["row"] for r in data}, key=mean, reverse=True)
    kind = lambda name: 0 if name.startswith("nsvq") else 2 if "+" in name else 1
    points = lambda column: [(names.index(r["row"]), float(r[column]), kind(r["row"])) for r in data]
    return dot_plot(names, [("PSNR, dB", [21, 22, 23, 24, 25], points("psnr_db")),
                            ("LPIPS-VGG", [0.22, 0.26, 0.30, 0.34, 0.38], points("lpips_vgg")),
                            ("rFID", [40, 50, 60, 70, 80, 90], points("rfid"))],
                    ["NSVQ", "as published", "+ schedule, adaptive weight"])


def stress():
    data = [r for r in rows("results/stress.csv") if r["scale"] == "gpu"]
    kinds = ["unprotected", "protected"]
    labels = [f"encoder's rate x {f}" for f in ("0.1", "0.5", "1", "5", "10")]
    row = lambda r: labels.index(f"encoder's rate x {r['encoder_rate_factor']}")
    points = lambda column: [(row(r), float(r[column]), kinds.index(r["run"])) for r in data]
    return dot_plot(labels, [("mean drift", [0, 0.05, 0.1, 0.15, 0.2], points("mean_drift")),
                             ("codes used, %", [0, 25, 50, 75, 100], points("codes_used_percent")),
                             ("rFID", [50, 55, 60, 65, 70], points("rfid"))],
                    ["without protection", "NS loss and replacement"])


def operators():
    files = ["h200", "aarch64", "x86_64"]
    data = {name: rows(f"figures/ops-{name}.csv") for name in files}
    labels = [f"{r['operator']}, {r['sizes']}" for r in data["h200"] if "K 65536, d 128" in r["sizes"] and
              r["operator"] in ("nearest_codes", "ns_quantize + backward")]
    point = lambda r: f"{r['operator']}, {r['sizes']}"
    gpu = [(labels.index(point(r)), float(r["plain_per_nsvq"]), 0) for r in data["h200"] if point(r) in labels]
    cpu = [(labels.index(point(r).replace("N 1024, K 8192", "N 8192, K 65536")), float(r["plain_per_nsvq"]), k)
           for k in (1, 2) for r in data[files[k]]
           if point(r).replace("N 1024, K 8192", "N 8192, K 65536") in labels]
    short = [label.replace("N 8192, K 65536, d 128", "8k x 65k").replace("N 32768, K 65536, d 128", "32k x 65k")
             for label in labels]
    return dot_plot(short, [("H200: times as fast as plain", [0, 5, 10, 15, 20], gpu),
                            ("2 cores (1k x 8k)", [0, 2, 4, 6, 8], cpu)], ["H200", "aarch64", "x86_64"])


PICTURES = {"results/table1-5000-steps.svg": table1, "results/stress.svg": stress, "figures/ops.svg": operators}


def stale():
    """Names of pictures that differ from what their CSV gives."""
    return [name for name, draw in PICTURES.items()
            if not (DOCS / name).exists() or (DOCS / name).read_text() != draw()]


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit("".join(f"docs/{name}: run docs/figures/draw.py\n" for name in stale()) or 0)
    for name, draw in PICTURES.items():
        (DOCS / name).write_text(draw())
