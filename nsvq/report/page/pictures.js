// Images and their reconstructions: a slider between the two, one through the epochs, a magnifier.

const gap = 2;                     // white pixels between the images of a grid
const mostPictureRuns = 8;
const pictureCache = new Map();

/** A picture, decoded once; one that could not be had is asked for again. */
function loadPicture(source) {
  if (!pictureCache.has(source)) {
    pictureCache.set(source, new Promise((resolve, reject) => {
      const image = new Image();
      image.onload = () => resolve(image);
      image.onerror = () => {
        pictureCache.delete(source);
        reject(new Error("cannot be shown"));
      };
      image.src = source;
    }));
  }
  return pictureCache.get(source);
}

/** Drops pictures that no run has any more. */
function forgetPictures() {
  const sources = new Set(page.runs.flatMap(run => run.pictures.map(picture => picture.source)));
  for (const source of pictureCache.keys()) if (!sources.has(source)) pictureCache.delete(source);
}

/** Size and number of the images of a grid, whose reconstructions stand below them; null for another picture. */
function gridOf(picture) {
  const size = (picture.naturalHeight - gap) / 2;
  const count = (picture.naturalWidth + gap) / (size + gap);
  return Number.isInteger(size) && Number.isInteger(count) && size > 0 ? {size, count} : null;
}

class Pictures {
  constructor() {
    this.split = 0.5;
    this.shown = [];     // runs and their pictures
    this.failed = false; // some of them could not be had
    this.time = make("input", {type: "range", id: "picture-epoch", min: "0", step: "1", oninput: () => {
      const epochs = this.epochs();
      page.epoch = Number(this.time.value) === epochs.length - 1 ? null : epochs[Number(this.time.value)];
      rememberChoices();
      this.draw();
    }});
    this.epoch = make("output");
    this.slider = make("input", {type: "range", id: "split", min: "0", max: "100", value: "50",
      oninput: () => this.setSplit(Number(this.slider.value) / 100)});
    this.rows = make("div", {class: "pictures scroll"});
    this.note = make("p", {class: "quiet"});
    this.lens = make("div", {class: "lens", hidden: true});
    this.element = make("section", {id: "pictures"}, make("h2", {}, "Reconstructions"),
      make("div", {class: "controls"}, make("label", {}, "epoch ", this.time, " ", this.epoch),
        make("label", {}, "reconstruction ", this.slider, " image")),
      this.rows, this.note, this.lens);
    addEventListener("scroll", () => { this.lens.hidden = true; }, {passive: true});
  }

  epochs() {
    return [...new Set(this.runs.flatMap(run => run.pictures.map(picture => picture.epoch)))].sort((a, b) => a - b);
  }

  update() {
    forgetPictures();
    this.runs = shownRuns().filter(run => run.pictures.length > 0);
    this.element.hidden = this.runs.length === 0;
    if (this.element.hidden) return;
    const left = this.runs.reduce((sum, run) => sum + run.pictures_left_out, 0);
    this.note.textContent = [
      this.runs.length > mostPictureRuns ? `The first ${mostPictureRuns} of the ${this.runs.length} runs shown.` : "",
      left > 0 ? `${counted(left, "picture")} in samples/ left out to keep the page small.` : "",
      "Drag over a picture, or tap on it, to move the line; the pointer magnifies."].join(" ").trim();
    this.runs = this.runs.slice(0, mostPictureRuns);
    this.draw();
  }

  /** Draws each run's newest picture up to the chosen epoch. */
  draw() {
    const epochs = this.epochs(), wanted = page.epoch === null ? epochs[epochs.length - 1] : page.epoch;
    this.time.max = String(epochs.length - 1);
    this.time.value = String(indexIn(epochs, wanted));
    this.time.disabled = epochs.length < 2;
    this.epoch.textContent = String(wanted);
    const chosen = this.runs.map(run => ({run, picture: run.pictures.filter(one => one.epoch <= wanted).pop() || run.pictures[0]}));
    // Unchanged pictures stay, and with them what the user points at.
    const same = (a, b) => b && a.run.name === b.run.name && a.picture.source === b.picture.source;
    if (!this.failed && chosen.length === this.shown.length && chosen.every((one, i) => same(one, this.shown[i]))) return;
    this.shown = chosen;
    const turn = this.turn = {};
    const rows = chosen.map(({run, picture}) => loadPicture(picture.source).then(image => this.row(run, picture, image),
      () => make("p", {class: "notice failed"}, `${run.name}: the picture of epoch ${picture.epoch} cannot be shown.`)));
    Promise.all(rows).then(elements => {
      if (turn !== this.turn) return;  // another epoch was chosen meanwhile
      refill(this.rows, elements);
      this.failed = this.rows.querySelector(".failed") !== null;
      // A server may be back, or a file whole.
      if (page.live && this.failed) setTimeout(() => { if (turn === this.turn) this.draw(); }, pause);
    });
  }

  row(run, picture, image) {
    const caption = make("figcaption", {}, this.runs.length > 1 ? make("b", {}, run.name + " ") : null, `epoch ${picture.epoch}`);
    const grid = run.generated ? null : gridOf(image);
    if (!grid) return make("figure", {}, caption, make("img", {src: picture.source, alt: `samples of epoch ${picture.epoch}`}));
    const tiles = Array.from({length: grid.count}, (_, i) => this.tile(run, image, grid, i));
    return make("figure", {}, caption, make("div", {class: "tiles"}, ...tiles));
  }

  tile(run, image, {size}, number) {
    const canvas = make("canvas", {class: "tile", "data-key": `${run.name} ${number}`, width: size, height: size, tabindex: "0", role: "img",
      "aria-label": `image ${number + 1} and its reconstruction; arrow keys move the line between them`});
    const left = number * (size + gap);
    canvas.style.width = Math.min(Math.max(size * Math.ceil(128 / size), 128), 256) + "px";
    canvas.paint = () => {
      const context = canvas.getContext("2d"), edge = Math.round(this.split * size);
      context.drawImage(image, left, size + gap, size, size, 0, 0, size, size);
      if (edge > 0) context.drawImage(image, left, 0, edge, size, 0, 0, edge, size);
      if (edge <= 0 || edge >= size) return;
      context.fillStyle = "#ffffffcc";
      context.fillRect(edge, 0, Math.max(1, size / 128), size);
    };
    canvas.paint();
    const share = event => {
      const box = canvas.getBoundingClientRect();
      return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    };
    // A mouse drags the line; a finger that drags scrolls, so a tap moves the line.
    canvas.addEventListener("pointerdown", event => {
      this.lens.hidden = true;
      if (event.pointerType === "touch") return;
      canvas.setPointerCapture(event.pointerId);
      this.setSplit(share(event)[0]);
    });
    canvas.addEventListener("pointermove", event => {
      if (event.pointerType === "touch") return;
      if (event.buttons) this.setSplit(share(event)[0]);
      this.magnify(image, left, size, share(event), event);
    });
    canvas.addEventListener("click", event => {
      if (event.pointerType !== "touch") return;
      this.setSplit(share(event)[0]);
      this.magnify(image, left, size, share(event), event);
    });
    canvas.addEventListener("pointerleave", () => { this.lens.hidden = true; });
    canvas.addEventListener("keydown", event => {
      const by = {ArrowLeft: -0.05, ArrowRight: 0.05}[event.key];
      if (by) { event.preventDefault(); this.setSplit(this.split + by); }
    });
    return canvas;
  }

  setSplit(share) {
    this.split = Math.min(Math.max(share, 0), 1);
    this.slider.value = String(Math.round(this.split * 100));
    for (const canvas of this.rows.querySelectorAll("canvas.tile")) canvas.paint();
  }

  /** The surroundings of the pointer in both, enlarged. */
  magnify(image, left, size, [x, y], event) {
    if (x < 0 || y < 0 || x > 1 || y > 1) { this.lens.hidden = true; return; }
    const side = Math.max(8, Math.round(size / 5)), shown = 150;
    const from = share => Math.min(Math.max(share * size - side / 2, 0), size - side);
    const view = (top, title) => {
      const canvas = make("canvas", {width: shown, height: shown});
      const context = canvas.getContext("2d");
      context.imageSmoothingEnabled = false;
      context.drawImage(image, left + from(x), top + from(y), side, side, 0, 0, shown, shown);
      return make("figure", {}, canvas, make("figcaption", {}, title));
    };
    this.lens.replaceChildren(view(0, "image"), view(size + gap, "reconstruction"));
    this.lens.hidden = false;
    const room = this.lens.getBoundingClientRect();
    const beside = event.clientX + 20 + room.width > innerWidth ? Math.max(0, event.clientX - 20 - room.width) : event.clientX + 20;
    this.lens.style.left = beside + "px";
    this.lens.style.top = Math.max(0, event.clientY + 20 + room.height > innerHeight ? event.clientY - 20 - room.height : event.clientY + 20) + "px";
  }
}
