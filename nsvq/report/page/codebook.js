// The codebook as a map, and the tokens of the sample images over them.

const mapSize = 460;
const mostPatches = 12;

/** The tokens of the sample images that each code has: {image, row, column}. */
function findUses(codes) {
  const uses = new Map();
  codes.tokens.forEach((tokens, image) => tokens.forEach((code, cell) =>
    listIn(uses, code, () => []).push({image, row: Math.floor(cell / codes.width), column: cell % codes.width})));
  return uses;
}

/** From blue for a seldom used code to red; grey for an unused one. */
const useColor = (uses, greatest) => uses === 0 ? styleColor("axis")
  : `hsl(${215 - 190 * Math.log(uses) / Math.log(Math.max(greatest, 2))} 75% ${isDark() ? 60 : 45}%)`;

class Codebook {
  constructor() {
    this.content = make("div");
    this.choice = make("div", {class: "controls"});
    this.element = make("section", {id: "codebook"}, make("h2", {}, "Codebook"), this.choice, this.content);
    this.name = null;
  }

  update() {
    const runs = shownRuns();
    this.element.hidden = runs.length === 0;
    if (runs.length === 0) return;
    if (!runs.some(run => run.name === this.name)) this.name = (runs.find(run => run.codes) || runs[0]).name;
    this.offer(runs.map(run => run.name));
    this.show();
  }

  /** A choice among the runs; an open one stays open while the runs do not change. */
  offer(names) {
    const offered = [this.name, ...names].join("\n");
    if (offered === this.offered) return;
    this.offered = offered;
    refill(this.choice, names.length > 1 ? [choice("run", names, this.name, name => {
      this.name = name;
      this.offered = [name, ...names].join("\n");
      this.show();
    })] : []);
  }

  show() {
    this.run = page.runs.find(run => run.name === this.name);
    const codes = this.run.codes;
    const shown = [this.name, codes, this.run.no_codes];
    if (this.shown && shown.every((one, i) => one === this.shown[i])) return;
    this.shown = shown;
    this.codes = this.plot = this.overlay = null;
    if (codes) return this.showCodes(codes);
    this.content.replaceChildren(this.run.no_codes ? make("p", {class: "notice"}, this.run.no_codes)
      : page.live ? "" : make("p", {class: "notice"}, "This page was made without the codebook."), this.loadButton() || "");
  }

  /** A button on pages of `nsvq watch`, which load the codebook when it is asked for. */
  loadButton() {
    if (!page.live) return null;
    const run = this.run;
    const button = make("button", {onclick: () => {
      button.disabled = true;
      loadCodes(run).then(() => {
        button.disabled = false;
        if (run.name === this.name) this.show();
      });
    }}, "Show the codebook of the newest checkpoint");
    return button;
  }

  showCodes(codes) {
    this.codes = codes;
    this.uses = findUses(codes);
    this.greatest = Math.max(1, ...[...this.uses.values()].map(list => list.length));
    this.useKnown = codes.tokens.length > 0;
    this.byUse = this.useKnown ? [...this.uses.keys()].sort((a, b) => this.uses.get(b).length - this.uses.get(a).length) : codes.code;
    this.code = null;
    this.image = 0;
    this.details = make("div", {class: "code"});
    const views = make("div", {class: "codebook"});
    views.append(codes.no_map ? make("p", {class: "notice"}, codes.no_map) : this.map());
    views.append(codes.no_tokens ? make("p", {class: "notice"}, `No tokens to show: ${codes.no_tokens}`) : this.tokens());
    views.append(this.details);
    const total = codes.tokens.length * codes.width * codes.height;
    const facts = codes.no_tokens ? "" : ` ${counted(this.uses.size, "code")} of ${codes.codes.toLocaleString("en-US")} used in the ` +
      `${counted(total, "token")} of the sample images (epoch ${codes.epoch}).`;
    this.content.replaceChildren(make("p", {class: "quiet"}, `Checkpoint ${codes.model}.${facts}`), views, this.loadButton() || "");
    this.select(null);
    this.paint();
  }

  map() {
    const {codes} = this;
    this.plot = make("canvas", {id: "map", tabindex: "0", role: "img", width: mapSize, height: mapSize,
      "aria-label": `map of the codes; arrow keys go through them${this.useKnown ? " from the most used on" : ""}`});
    const nearest = event => {
      const box = this.plot.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * mapSize, y = (event.clientY - box.top) / box.height * mapSize;
      let found = null, least = 18 ** 2;
      codes.code.forEach((code, i) => {
        const [px, py] = this.position(i), distance = (px - x) ** 2 + (py - y) ** 2;
        if (distance < least) { least = distance; found = code; }
      });
      return found;
    };
    this.plot.addEventListener("pointermove", event => this.select(nearest(event)));
    this.plot.addEventListener("pointerdown", event => this.select(nearest(event)));
    this.plot.addEventListener("keydown", event => {
      const by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (!by) return;
      event.preventDefault();
      const at = Math.max(this.byUse.indexOf(this.code), by > 0 ? -1 : 0) + by;
      this.select(this.byUse[(at + this.byUse.length) % this.byUse.length]);
    });
    const share = value => `${Math.round(value * 100)} %`;
    const use = this.useKnown ? "blue to red by use, unused grey" : "all in one colour: without sample images their use is not known";
    const left = codes.code.length < codes.codes ? ` ${codes.code.length.toLocaleString("en-US")} of the codes are drawn, the ` +
      `${this.useKnown ? "most used" : "first"} ones.` : "";
    return make("figure", {}, this.plot, make("figcaption", {},
      `The codes by their two main directions (${share(codes.x_share)} and ${share(codes.y_share)} of the variance), ${use}.${left}`));
  }

  /** Pixels of a code on the map. */
  position(i) {
    const room = mapSize - 24;
    return [12 + this.codes.x[i] / 4095 * room, 12 + (1 - this.codes.y[i] / 4095) * room];
  }

  tokens() {
    this.overlay = make("canvas", {id: "tokens", role: "img", "aria-label": "tokens over a sample image"});
    this.overlay.addEventListener("pointermove", event => this.select(this.codeUnder(event)));
    this.overlay.addEventListener("pointerdown", event => this.select(this.codeUnder(event)));
    const next = make("input", {type: "range", min: "0", max: String(this.codes.tokens.length - 1), value: "0",
      oninput: () => { this.image = Number(next.value); this.paint(); }});
    this.strength = make("input", {type: "range", id: "token-strength", min: "0", max: "100", value: "40", oninput: () => this.paint()});
    return make("figure", {}, this.overlay, make("figcaption", {class: "controls"},
      make("label", {}, "image ", next), make("label", {}, "tokens ", this.strength),
      `${this.codes.height} × ${this.codes.width} tokens, a colour for each code`));
  }

  codeUnder(event) {
    const box = this.overlay.getBoundingClientRect(), {width, height} = this.codes;
    const column = Math.floor((event.clientX - box.left) / box.width * width);
    const row = Math.floor((event.clientY - box.top) / box.height * height);
    return row >= 0 && row < height && column >= 0 && column < width ? this.codes.tokens[this.image][row * width + column] : null;
  }

  select(code) {
    if (code === this.code && this.details.childNodes.length > 0) return;
    this.code = code;
    if (code === null) {
      this.details.replaceChildren(make("p", {class: "quiet"}, "Point at a code or a token to see what it stands for."));
    } else {
      const uses = this.uses.get(code) || [];
      this.details.replaceChildren(make("p", {"aria-live": "polite"}, make("b", {}, `Code ${code}`), `: ${this.useText(uses.length)}`),
        make("div", {class: "patches"}, ...this.patches(uses)));
    }
    this.paint();
  }

  useText(uses) {
    if (!this.useKnown) return "its use is not known";
    const total = this.codes.tokens.length * this.codes.width * this.codes.height;
    return counted(uses, "use") + (uses > 0 ? `, ${short(100 * uses / total)} % of the tokens` : "");
  }

  /** The picture with the images of the tokens. */
  source() {
    const picture = this.run.pictures.find(one => one.epoch === this.codes.epoch);
    return picture ? loadPicture(picture.source) : Promise.reject(new Error("left out"));
  }

  /** Patches from different images first. The surroundings of a token are pale. */
  patches(uses) {
    const seen = new Map();
    const order = uses.map(token => ({token, rank: listIn(seen, token.image, () => []).push(0)})).sort((a, b) => a.rank - b.rank);
    return order.slice(0, mostPatches).map(({token}) => {
      const canvas = make("canvas", {width: 72, height: 72, title: `image ${token.image + 1}, row ${token.row + 1}, column ${token.column + 1}`});
      const columns = this.codes.width;
      this.source().then(image => {
        const grid = gridOf(image);
        if (!grid) return;
        const {size} = grid, cell = size / columns, context = canvas.getContext("2d");
        context.imageSmoothingEnabled = false;
        const left = token.image * (size + gap);
        const corner = (at, cells) => Math.min(Math.max((at - 1) * cell, 0), size - cells * cell);
        const x = corner(token.column, 3), y = corner(token.row, 3);
        context.globalAlpha = 0.45;
        context.drawImage(image, left + x, y, 3 * cell, 3 * cell, 0, 0, 72, 72);
        context.globalAlpha = 1;
        const to = at => at / (3 * cell) * 72;
        const [tx, ty] = [to(token.column * cell - x), to(token.row * cell - y)];
        context.drawImage(image, left + token.column * cell, token.row * cell, cell, cell, tx, ty, 24, 24);
        context.strokeStyle = styleColor("ink");
        context.strokeRect(tx + 0.5, ty + 0.5, 23, 23);
      }, () => {});
      return canvas;
    });
  }

  paint() {
    if (!this.codes) return;
    if (this.plot) this.paintMap();
    const {overlay} = this;
    if (!overlay) return;
    const paint = image => { if (overlay === this.overlay) this.paintTokens(image); };  // not another run's meanwhile
    this.source().then(paint, () => paint(null));
  }

  paintMap() {
    const context = this.plot.getContext("2d"), {codes} = this;
    context.clearRect(0, 0, mapSize, mapSize);
    const radius = codes.code.length > 4000 ? 1.5 : codes.code.length > 600 ? 2.2 : 3.5;
    const uses = codes.code.map(code => (this.uses.get(code) || []).length);
    // Much used codes on top.
    const order = codes.code.map((_, i) => i).sort((a, b) => uses[a] - uses[b]);
    for (const i of order) {
      const [x, y] = this.position(i);
      context.fillStyle = this.useKnown ? useColor(uses[i], this.greatest) : styleColor("c0");
      context.globalAlpha = uses[i] === 0 && this.useKnown ? 0.45 : 0.9;
      context.beginPath();
      context.arc(x, y, radius, 0, 7);
      context.fill();
    }
    context.globalAlpha = 1;
    const chosen = codes.code.indexOf(this.code);
    if (chosen < 0) return;
    const [x, y] = this.position(chosen);
    context.strokeStyle = styleColor("ink");
    context.lineWidth = 2;
    context.beginPath();
    context.arc(x, y, radius + 4, 0, 7);
    context.stroke();
  }

  paintTokens(image) {
    const {width, height, tokens} = this.codes, cell = Math.max(4, Math.round(mapSize / width));
    this.overlay.width = width * cell;
    this.overlay.height = height * cell;
    const context = this.overlay.getContext("2d");
    context.imageSmoothingEnabled = false;
    const grid = image && gridOf(image);
    if (grid) context.drawImage(image, this.image * (grid.size + gap), 0, grid.size, grid.size, 0, 0, width * cell, height * cell);
    const strength = Number(this.strength.value) / 100;
    tokens[this.image].forEach((code, i) => {
      const x = i % width * cell, y = Math.floor(i / width) * cell, chosen = code === this.code;
      context.globalAlpha = grid ? strength : 1;
      context.fillStyle = `hsl(${(code * 137.5) % 360} 70% 50%)`;
      context.fillRect(x, y, cell, cell);
      if (!chosen) return;
      context.globalAlpha = 1;
      context.strokeStyle = "#fff";
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, cell - 2, cell - 2);
    });
    context.globalAlpha = 1;
  }
}
