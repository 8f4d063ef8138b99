/* Shows the attention of a Transformer: lines between two sentences, a matrix, all heads at once.

   KerasTransformerAttention.mount(element, data) draws into an element of the page and returns an
   object with destroy(). `data` is the result of `AttentionMaps.to_json()`. A page may have several
   mounts. Colors follow the CSS `color-scheme` of the element.

   All text is set with textContent, and all style with classes and the CSSOM. So the component
   works under a content security policy that allows neither inline scripts nor inline styles. It
   makes no network requests. It is a single file, so that one <script> loads or holds all of it. */
(function (global) {
  "use strict";

  const NAMES = { encoder: "Encoder", decoder: "Decoder", cross: "Cross", alignment: "Alignment" };
  const SIDES = ["query", "key"];
  const ROLES = { query: "Queries", key: "Keys" };
  const COLORS = 12; // of heads, in attention.css; further heads start again with the first
  const WEIGHTS = Float64Array.from({ length: 256 }, (_, level) => (level / 255) ** 2);
  const NAMED = 0.005; // least weight shown as more than "< 1 %"
  let mounts = 0;

  /* Elements and words. */

  /** An element with classes, attributes and children; strings become text. */
  function make(tag, className = "", attributes = {}, ...children) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  function makeSvg(tag, attributes) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

  function makeButton(className, label, onClick, ...children) {
    const button = make("button", className, { type: "button" }, ...children);
    if (label) button.setAttribute("aria-label", label);
    button.addEventListener("click", onClick);
    return button;
  }

  function makeTable(names, rows) {
    const head = make("tr", "", {}, ...names.map((name) => make("th", "", { scope: "col" }, name)));
    const body = make("tbody");
    for (const [first, ...others] of rows) {
      const cells = others.map((cell) => make("td", "", {}, cell));
      body.append(make("tr", "", {}, make("th", "", { scope: "row" }, first), ...cells));
    }
    return make("table", "kt-table", {}, make("thead", "", {}, head), body);
  }

  /** A group of radio buttons that looks like a single control with several parts. */
  class Choice {
    constructor(id, title, options, onChange) {
      const row = make("div", "kt-segments");
      this.inputs = options.map(([value, text]) => {
        const input = make("input", "", { type: "radio", name: id, value });
        row.append(make("label", "", {}, input, make("span", "", {}, text)));
        input.addEventListener("change", () => onChange(value));
        return input;
      });
      this.element = make("fieldset", "kt-choice", {}, make("legend", "", {}, title), row);
    }

    set(value) {
      for (const input of this.inputs) input.checked = input.value === String(value);
    }
  }

  function range(length) {
    return Array.from({ length }, (_, index) => index);
  }

  /** A weight as a share: "37 %". */
  function percent(weight) {
    return weight > 0 && weight < NAMED ? "< 1 %" : `${Math.round(100 * weight)} %`;
  }

  /** What a screen reader says for a token: "▁" marks a space. */
  function spoken(token) {
    return token.replaceAll("▁", " ").trim() || (token ? "space" : "empty");
  }

  /** A token within a sentence, in any writing direction. */
  function named(token) {
    return make("bdi", "kt-quoted", {}, spoken(token));
  }

  function quoted(token) {
    return make("span", "kt-quoted", {}, "“", named(token), "”");
  }

  /* What is shown, without its elements. */

  /** The weights of one kind, as received: bytes, or levels, which WEIGHTS translates. */
  class HeadMaps {
    constructor(map) {
      Object.assign(this, map);
      this.levels = Uint8Array.from(atob(map.weights), (character) => character.charCodeAt(0));
    }

    /** Where the levels of a head begin, row after row. */
    offset(layer, head) {
      return (layer * this.heads + head) * this.rows * this.columns;
    }
  }

  /** The choices of kind, layer and heads, and the token that is looked at. */
  class Shown {
    constructor(data) {
      this.data = data;
      this.kinds = Object.keys(NAMES).filter((kind) => data.maps[kind]);
      this.maps = {};
      this.view = "lines";
      this.naming = "output"; // or "input": which token names a decoder position
      this.chosen = null; // {side, index}, by a click or the keyboard
      this.hovered = null; // the same, under the pointer
      this.cell = null; // the column of the matrix that the pointer or the keyboard selects
      this.chooseKind(this.kinds.at(-1));
    }

    chooseKind(kind) {
      this.kind = kind;
      this.maps[kind] ||= new HeadMaps(this.data.maps[kind]);
      this.map = this.maps[kind];
      const { layers, heads } = this.map;
      // Start with the penultimate layer, which word alignments also use.
      this.layer = Math.min(this.layer ?? Math.max(0, layers - 2), layers - 1);
      this.chooseHeads(range(heads));
      this.chosen = this.hovered = this.cell = null;
    }

    chooseHeads(heads) {
      this.heads = [...heads].sort((a, b) => a - b);
    }

    get active() {
      return this.hovered || this.chosen;
    }

    /** Whether the tokens of a side are source tokens. */
    isSource(side) {
      const toSource = this.kind === "cross" || this.kind === "alignment";
      return this.kind === "encoder" || (toSource && side === "key");
    }

    /** The tokens that name rows, or columns. */
    tokens(side) {
      if (this.isSource(side)) return this.data.source_tokens;
      const isOutput = side === "query" && this.naming === "output";
      return isOutput ? this.data.output_tokens : this.data.target_tokens;
    }

    sideName(side) {
      if (this.isSource(side)) return "Source";
      return side === "query" && this.naming === "output" ? "Output, predicted" : "Output, read";
    }

    /** The byte for a weight in the chosen layer. */
    level(head, row, column) {
      return this.map.levels[this.map.offset(this.layer, head) + row * this.map.columns + column];
    }

    /** The mean weight of the chosen heads. */
    mean(row, column) {
      let total = 0;
      for (const head of this.heads) total += WEIGHTS[this.level(head, row, column)];
      return this.heads.length ? total / this.heads.length : 0;
    }

    /** The pairs with the active token, as [row, column], and the other side. */
    pairs() {
      const { side, index } = this.active;
      const { rows, columns } = this.map;
      return side === "query"
        ? { other: "key", pairs: range(columns).map((column) => [index, column]) }
        : { other: "query", pairs: range(rows).map((row) => [row, index]) };
    }
  }

  /* The parts of the picture. */

  /** The tokens of one side as a list to navigate. */
  class TokenList {
    constructor(shown, side, orientation) {
      this.side = side;
      this.options = shown.tokens(side).map((token, index) => this.makeOption(token, index));
      this.element = make("div", `kt-tokens kt-${side}`, {
        role: "listbox",
        "aria-label": `${ROLES[side]}: ${shown.sideName(side)}`,
        "aria-orientation": orientation,
      });
      this.element.append(...this.options);
    }

    makeOption(token, index) {
      const text = make("span", "kt-text", { dir: "auto" });
      for (const part of token.split(/(▁+)/)) {
        const isSpace = part.startsWith("▁");
        text.append(isSpace ? make("span", "kt-mark", {}, "·".repeat(part.length)) : part);
      }
      const option = make("div", "kt-token", {
        role: "option",
        tabindex: index ? "-1" : "0",
        "aria-selected": "false",
        "aria-label": `${index + 1}: ${spoken(token)}`,
        "data-side": this.side,
        "data-index": index,
      });
      option.append(make("span", "kt-index", {}, `${index + 1}`), text);
      option.append(make("span", "kt-bar"), make("span", "kt-badges"));
      return option;
    }

    /** Mark the active token, and put the chosen token into the page's focus order. */
    update({ active, chosen, cell }) {
      this.options.forEach((option, index) => {
        const isActive = Boolean(active) && active.side === this.side && active.index === index;
        option.classList.toggle("kt-active", isActive || (this.side === "key" && cell === index));
        option.setAttribute("aria-selected", isActive);
      });
      if (!chosen || chosen.side !== this.side) return;
      this.options.forEach((option, index) => {
        option.tabIndex = index === chosen.index ? 0 : -1;
      });
    }

    /** Where a key leads within the list; null if it leads nowhere. */
    next(index, key, [back, forth]) {
      const count = this.options.length;
      const steps = { [back]: -1, [forth]: 1, PageUp: -10, PageDown: 10, Home: -count, End: count };
      if (!(key in steps)) return null;
      return Math.max(0, Math.min(count - 1, index + steps[key]));
    }
  }

  /** Two sentences, and lines from query tokens to the key tokens that they look at. */
  class Lines {
    static ROW = 28; // pixels per token, as in attention.css
    static FOCUS_LEVEL = 26; // least level of a line from the active token: 1 %
    static IDLE_LEVEL = 81; // least level of a line if no token is active: 10 %
    static MOST_IDLE = 1500; // lines if no token is active
    static MOST_BADGES = 4; // head numbers beside a token

    constructor(shown) {
      this.shown = shown;
      this.lists = Object.fromEntries(
        SIDES.map((side) => [side, new TokenList(shown, side, "vertical")]),
      );
      const height = Lines.ROW * Math.max(shown.map.rows, shown.map.columns);
      this.svg = makeSvg("svg", {
        class: "kt-lines",
        viewBox: `0 0 100 ${height}`,
        preserveAspectRatio: "none",
        "aria-hidden": "true",
      });
      this.svg.style.height = `${height}px`;
      const { query, key } = this.lists;
      this.element = make("div", "kt-scroll kt-between");
      const between = make("span", "kt-heading");
      this.element.append(this.makeHeading("query"), between, this.makeHeading("key"));
      this.element.append(query.element, this.svg, key.element);
    }

    makeHeading(side) {
      const heading = make("div", `kt-heading kt-${side}`, { "aria-hidden": "true" });
      heading.append(make("span", "kt-role", {}, ROLES[side]), this.shown.sideName(side));
      return heading;
    }

    repaint() {} // CSS colors the lines

    /** Draw the lines and the weights of the tokens; returns the caption. */
    update() {
      const lines = [];
      const least = this.shown.active ? this.linesOfActive(lines) : this.strongestLines(lines);
      this.svg.replaceChildren(...this.makePaths(lines));
      this.numLines = lines.length;
      this.drawStrengths();
      return `A line for each weight of ${percent(WEIGHTS[least])} or more.`;
    }

    /** Add the lines [head, row, column, level] of the active token; returns the least level. */
    linesOfActive(lines) {
      for (const head of this.shown.heads) {
        for (const [row, column] of this.shown.pairs().pairs) {
          const level = this.shown.level(head, row, column);
          if (level >= Lines.FOCUS_LEVEL) lines.push([head, row, column, level]);
        }
      }
      return Lines.FOCUS_LEVEL;
    }

    /** Add the lines of all tokens, but no more than can be told apart. */
    strongestLines(lines) {
      const { map, layer, heads } = this.shown;
      const size = map.rows * map.columns;
      const counts = new Uint32Array(256);
      for (const head of heads) {
        const offset = map.offset(layer, head);
        for (let i = 0; i < size; i++) counts[map.levels[offset + i]]++;
      }
      let least = 255;
      let total = counts[least];
      while (least > Lines.IDLE_LEVEL && total + counts[least - 1] <= Lines.MOST_IDLE) {
        total += counts[--least];
      }
      for (const head of heads) {
        const offset = map.offset(layer, head);
        for (let i = 0; i < size && lines.length < Lines.MOST_IDLE; i++) {
          const level = map.levels[offset + i];
          const [row, column] = [Math.floor(i / map.columns), i % map.columns];
          if (level >= least) lines.push([head, row, column, level]);
        }
      }
      return least;
    }

    /** One path for all lines of a head with about the same strength. */
    makePaths(lines) {
      const { heads } = this.shown;
      const spread = Math.min(3, (0.7 * Lines.ROW) / heads.length);
      const paths = new Map();
      for (const [head, row, column, level] of lines) {
        const shift = (heads.indexOf(head) - (heads.length - 1) / 2) * spread;
        const [from, to] = [row, column].map((i) => ((i + 0.5) * Lines.ROW + shift).toFixed(1));
        const key = 16 * head + (level >> 4);
        if (!paths.has(key)) paths.set(key, []);
        paths.get(key).push(`M0 ${from}L100 ${to}`);
      }
      return [...paths].map(([key, parts]) => {
        const head = key >> 4;
        const weight = WEIGHTS[16 * (key & 15) + 15];
        return makeSvg("path", {
          d: parts.join(""),
          "data-color": head % COLORS,
          "data-head": head + 1,
          "stroke-opacity": (0.15 + 0.85 * weight ** 0.65).toFixed(2),
          "stroke-width": (1 + 2.2 * weight).toFixed(2),
          "vector-effect": "non-scaling-stroke",
        });
      });
    }

    /** Bars under the tokens that the active token looks at, and the heads that look there most. */
    drawStrengths() {
      for (const side of SIDES) {
        for (const option of this.lists[side].options) {
          option.querySelector(".kt-bar").style.width = "0";
          option.querySelector(".kt-badges").replaceChildren();
        }
      }
      const { active, heads } = this.shown;
      if (!active || !heads.length) return;
      const { other, pairs } = this.shown.pairs();
      const { options } = this.lists[other];
      pairs.forEach(([row, column], index) => this.drawBar(options[index], row, column));
      if (heads.length === 1) return;
      const winners = new Map(); // index of a token -> heads that look there most
      for (const head of heads) {
        const levels = pairs.map(([row, column]) => this.shown.level(head, row, column));
        const best = levels.indexOf(Math.max(...levels));
        winners.set(best, [...(winners.get(best) || []), head]);
      }
      for (const [index, own] of winners) {
        options[index].querySelector(".kt-badges").append(...this.makeBadges(own));
      }
    }

    /** A bar as long as the mean weight; each head's color is as long as its share of it. */
    drawBar(option, row, column) {
      const { heads } = this.shown;
      const mean = this.shown.mean(row, column);
      if (mean < NAMED) return;
      let end = 0;
      const stops = heads.map((head) => {
        const start = end;
        end += (100 * WEIGHTS[this.shown.level(head, row, column)]) / (heads.length * mean);
        return `var(--kt-head-${head % COLORS}) ${start}% ${end}%`;
      });
      const { style } = option.querySelector(".kt-bar");
      style.width = `${Math.min(100, 100 * mean)}%`;
      style.backgroundImage = `linear-gradient(to right, ${stops.join(", ")})`;
    }

    makeBadges(heads) {
      const most = Lines.MOST_BADGES;
      const first = heads.length > most ? heads.slice(0, most - 1) : heads;
      const badges = first.map((head) =>
        make("span", "kt-badge", { "data-color": head % COLORS }, `${head + 1}`),
      );
      const others = heads.length - first.length;
      return others ? [...badges, make("span", "kt-badge", {}, `+${others}`)] : badges;
    }

    /** Where a key leads from a token; null if it leads nowhere. */
    next({ side, index }, key) {
      const to = this.lists[side].next(index, key, ["ArrowUp", "ArrowDown"]);
      if (to !== null) return { side, index: to };
      const other = { ArrowLeft: "query", ArrowRight: "key" }[key];
      if (!other) return null;
      return { side: other, index: Math.min(index, this.lists[other].options.length - 1) };
    }

    cellAt() {
      return null;
    }
  }

  /** The mean weights of the chosen heads, with a row for each query token. */
  class Matrix {
    static SMALLEST = 18; // pixels per cell
    static LARGEST = 32;
    static WIDTH = 520; // pixels that cells share until they reach the smallest size

    constructor(shown, colorOf) {
      this.shown = shown;
      this.colorOf = colorOf;
      const { rows, columns } = shown.map;
      const size = Math.floor(Matrix.WIDTH / Math.max(rows, columns));
      this.size = Math.max(Matrix.SMALLEST, Math.min(Matrix.LARGEST, size));
      this.lists = {
        query: new TokenList(shown, "query", "vertical"),
        key: new TokenList(shown, "key", "horizontal"),
      };
      this.canvas = make("canvas", "kt-weights", { "aria-hidden": "true" });
      this.activeMark = make("span", "kt-active-mark");
      this.cellMark = make("span", "kt-cell-mark");
      this.field = make("div", "kt-field", {}, this.canvas, this.activeMark, this.cellMark);
      this.place(this.field, columns, rows);
      const corner = make("div", "kt-corner", { "aria-hidden": "true" });
      corner.append(make("span", "", {}, `→ ${shown.sideName("key")}`));
      corner.append(make("span", "", {}, `↓ ${shown.sideName("query")}`));
      const { query, key } = this.lists;
      this.element = make("div", "kt-scroll kt-matrix", {}, corner, key.element, query.element);
      this.element.append(this.field);
      this.element.style.setProperty("--kt-cell", `${this.size}px`);
      this.repaint();
    }

    /** Set the size of an element, and its place if it has one, in cells. */
    place(element, width, height, column, row) {
      const sizes = { width, height, left: column, top: row };
      for (const [name, cells] of Object.entries(sizes)) {
        if (cells !== undefined) element.style[name] = `${this.size * cells}px`;
      }
    }

    repaint() {
      const { rows, columns } = this.shown.map;
      const { heads } = this.shown;
      paint(this.canvas, rows, columns, this.colorOf(heads.length === 1 ? heads[0] : null), (i) =>
        Math.round(255 * Math.sqrt(this.shown.mean(Math.floor(i / columns), i % columns))),
      );
    }

    /** Mark the active row or column, and the cell; returns the caption. */
    update() {
      const { active, cell, heads } = this.shown;
      const { rows, columns } = this.shown.map;
      const isRow = Boolean(active) && active.side === "query";
      this.activeMark.hidden = !active;
      this.cellMark.hidden = !isRow || cell === null;
      if (isRow) this.place(this.activeMark, columns, 1, 0, active.index);
      else if (active) this.place(this.activeMark, 1, rows, active.index, 0);
      if (!this.cellMark.hidden) this.place(this.cellMark, 1, 1, cell, active.index);
      const whose = heads.length === 1 ? "the weight" : `the mean weight of ${heads.length} heads`;
      return `Depth of color: the square root of ${whose}.`;
    }

    /** As in `Lines`; the left and right keys move through the cells of a row. */
    next({ side, index }, key) {
      const { cell, map } = this.shown;
      const upDown = ["ArrowUp", "ArrowDown"];
      const leftRight = ["ArrowLeft", "ArrowRight"];
      const to = this.lists[side].next(index, key, side === "query" ? upDown : leftRight);
      if (to !== null) return { side, index: to, cell: side === "query" ? cell : null };
      if (side === "key" && key === "ArrowDown") return { side: "query", index: 0, cell: index };
      if (side === "key" || !leftRight.includes(key)) return null;
      const last = map.columns - 1;
      const step = key === "ArrowRight" ? 1 : -1;
      if (cell === null) return { side, index, cell: step > 0 ? 0 : last };
      return { side, index, cell: Math.max(0, Math.min(last, cell + step)) };
    }

    /** The cell under the pointer. */
    cellAt(event) {
      if (!event.target.closest(".kt-field")) return null;
      const box = this.field.getBoundingClientRect();
      const { rows, columns } = this.shown.map;
      const [column, row] = [
        [event.clientX - box.left, columns],
        [event.clientY - box.top, rows],
      ].map(([pixels, count]) => Math.max(0, Math.min(count - 1, Math.floor(pixels / this.size))));
      return { side: "query", index: row, cell: column };
    }
  }

  /** Draw weights on a canvas with one pixel per weight, which CSS enlarges. */
  function paint(canvas, rows, columns, [red, green, blue], alphaOf) {
    canvas.width = columns;
    canvas.height = rows;
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows);
    const { data } = image;
    for (let index = 0, at = 0; index < rows * columns; index++, at += 4) {
      data[at] = red;
      data[at + 1] = green;
      data[at + 2] = blue;
      data[at + 3] = alphaOf(index);
    }
    context.putImageData(image, 0, 0);
  }

  /* The parts beside the picture. */

  /** All heads of all layers, small; a click chooses one. */
  class Overview {
    static FINE = 44; // rows or columns from which a thumbnail has more pixels than its size

    constructor(shown, colorOf, onChoose) {
      this.shown = shown;
      this.colorOf = colorOf;
      this.onChoose = onChoose;
      this.element = make("div", "kt-overview");
    }

    build() {
      const { layers, heads } = this.shown.map;
      const grid = make("div", "kt-thumbnails", { role: "toolbar", "aria-label": "All heads" });
      const hidden = { "aria-hidden": "true" };
      const number = (index) => make("span", "kt-number", hidden, `${index + 1}`);
      grid.style.setProperty("--kt-columns", heads);
      grid.addEventListener("keydown", (event) => this.onKey(event));
      grid.append(make("span"), ...range(heads).map(number));
      this.thumbnails = [];
      for (const layer of range(layers)) {
        const row = range(heads).map((head) => this.makeThumbnail(layer, head));
        grid.append(number(layer), ...row.map(({ button }) => button));
        this.thumbnails.push(...row);
      }
      this.thumbnails[0].button.tabIndex = 0;
      const hint = "Rows are layers, columns are heads. Choose one to see it alone.";
      const texts = [make("p", "kt-title", {}, "All heads"), make("p", "kt-note", {}, hint)];
      this.element.replaceChildren(...texts, grid);
      this.repaint();
    }

    makeThumbnail(layer, head) {
      const { rows, columns, entropies, mean_distances: distances } = this.shown.map;
      const label =
        `Layer ${layer + 1}, head ${head + 1}: entropy ${entropies[layer][head].toFixed(2)}, ` +
        `mean distance ${distances[layer][head].toFixed(1)}`;
      const canvas = make("canvas", "", { "aria-hidden": "true" });
      canvas.classList.toggle("kt-fine", Math.max(rows, columns) > Overview.FINE);
      const choose = () => {
        this.reach(button);
        this.onChoose(layer, head);
      };
      const button = makeButton("kt-thumbnail", label, choose, canvas);
      button.title = label;
      button.tabIndex = -1;
      return { layer, head, button, canvas };
    }

    repaint() {
      const { map } = this.shown;
      const colors = range(map.heads).map((head) => this.colorOf(head));
      for (const { layer, head, canvas } of this.thumbnails) {
        const offset = map.offset(layer, head);
        paint(canvas, map.rows, map.columns, colors[head], (i) => map.levels[offset + i]);
      }
    }

    update() {
      for (const { layer, head, button } of this.thumbnails) {
        const isShown = layer === this.shown.layer && this.shown.heads.includes(head);
        button.setAttribute("aria-pressed", isShown);
      }
    }

    /** One thumbnail is in the page's focus order; the arrow keys lead to the others. */
    reach(reached) {
      for (const { button } of this.thumbnails) button.tabIndex = button === reached ? 0 : -1;
      reached.focus();
    }

    onKey(event) {
      const at = this.thumbnails.findIndex(({ button }) => button === event.target);
      const last = this.thumbnails.length - 1;
      const { heads } = this.shown.map;
      const to = {
        ArrowLeft: at - 1,
        ArrowRight: at + 1,
        ArrowUp: at - heads,
        ArrowDown: at + heads,
        Home: 0,
        End: last,
      }[event.key];
      if (at < 0 || to === undefined || to < 0 || to > last) return;
      event.preventDefault();
      this.reach(this.thumbnails[to].button);
    }
  }

  /** In words: the active token's strongest weights, or a summary of the heads. */
  class Details {
    static MOST = 8; // tokens

    constructor(shown, onGo) {
      this.shown = shown;
      this.onGo = onGo;
      this.element = make("div", "kt-details", { "aria-live": "polite", "aria-atomic": "true" });
    }

    update() {
      const { active, heads } = this.shown;
      if (!heads.length) this.element.replaceChildren(...this.ofNothing());
      else if (active) this.element.replaceChildren(...this.ofToken(active));
      else this.element.replaceChildren(...this.ofLayer());
    }

    ofNothing() {
      const hint = make("p", "kt-note", {}, "Choose one or more above.");
      return [make("p", "kt-title", {}, "No head is shown"), hint];
    }

    ofLayer() {
      const { kind, layer, heads, map } = this.shown;
      const hint = "Point at a token, tap it or go to it with the arrow keys: where does it look?";
      const rows = heads.map((head) => [
        `${head + 1}`,
        map.entropies[layer][head].toFixed(2),
        map.mean_distances[layer][head].toFixed(1),
      ]);
      return [
        make("p", "kt-title", {}, `${NAMES[kind]}, layer ${layer + 1}`),
        make("p", "kt-note", {}, hint),
        makeTable(["Head", "Entropy, nats", "Mean distance"], rows),
      ];
    }

    ofToken({ side, index }) {
      const { shown } = this;
      const verb = side === "query" ? " looks at" : " is looked at by";
      const found = [make("p", "kt-title", {}, quoted(shown.tokens(side)[index]), verb)];
      if (side === "query" && shown.kind !== "encoder") found.push(this.position(index));
      if (side === "query" && shown.cell !== null) found.push(this.cell(index, shown.cell));
      const weight = shown.heads.length > 1 ? "Mean weight" : "Weight";
      found.push(makeTable(["Token", weight, "Strongest head"], this.strongest()));
      return found;
    }

    position(index) {
      const { target_tokens: read, output_tokens: predicted } = this.shown.data;
      const note = make("p", "kt-note", {}, `Position ${index + 1} has read `, quoted(read[index]));
      note.append(" and is to predict ", quoted(predicted[index]), ".");
      return note;
    }

    cell(row, column) {
      const key = quoted(this.shown.tokens("key")[column]);
      return make("p", "kt-note", {}, "Cell: ", key, ` ${percent(this.shown.mean(row, column))}`);
    }

    /** Table rows: a token to go to, its weight, and the head that contributes most. */
    strongest() {
      const { shown } = this;
      const { other, pairs } = shown.pairs();
      const tokens = shown.tokens(other);
      return pairs
        .map(([row, column], index) => ({ row, column, index, mean: shown.mean(row, column) }))
        .filter(({ mean }) => mean >= NAMED)
        .sort((a, b) => b.mean - a.mean)
        .slice(0, Details.MOST)
        .map(({ row, column, index, mean }) => {
          const levels = shown.heads.map((head) => shown.level(head, row, column));
          const most = Math.max(...levels);
          const head = shown.heads[levels.indexOf(most)];
          const number = make("span", "kt-index", {}, `${index + 1}`);
          const go = () => this.onGo({ side: other, index });
          const token = makeButton("kt-go", "", go, number, named(tokens[index]));
          return [token, percent(mean), `${head + 1} (${percent(WEIGHTS[most])})`];
        });
    }
  }

  /** What to show: kind, layer, view, names and heads. */
  class Controls {
    constructor(id, shown, { onKind, onChange }) {
      this.id = id;
      this.shown = shown;
      this.onChange = onChange;
      const change = (name) => (value) => {
        shown[name] = value;
        onChange();
      };
      this.change = change;
      const kinds = shown.kinds.map((kind) => [kind, NAMES[kind]]);
      const views = Object.entries({ lines: "Lines", matrix: "Matrix" });
      const namings = Object.entries({ output: "Predicted", input: "Read" });
      this.choices = {
        kind: new Choice(`${id}-kind`, "Attention", kinds, onKind),
        view: new Choice(`${id}-view`, "View", views, change("view")),
        naming: new Choice(`${id}-naming`, "Queries as", namings, change("naming")),
      };
      this.layerPlace = make("div", "kt-place");
      this.headPlace = make("div", "kt-place");
      const { kind, view, naming } = this.choices;
      this.element = make("div", "kt-controls", { role: "group", "aria-label": "What to show" });
      this.element.append(kind.element, this.layerPlace, view.element, naming.element);
      this.element.append(this.headPlace);
    }

    /** Make the parts that depend on the kind. */
    build() {
      const { map, kind } = this.shown;
      const numbers = range(map.layers).map((layer) => [layer, `${layer + 1}`]);
      this.choices.layer = new Choice(`${this.id}-layer`, "Layer", numbers, this.change("layer"));
      this.layerPlace.replaceChildren(this.choices.layer.element);
      this.choices.naming.element.hidden = kind === "encoder";
      this.headButtons = range(map.heads).map((head) => this.makeHead(head));
      const row = make("div", "kt-heads", {}, ...this.headButtons);
      row.append(
        makeButton("kt-plain", "All heads", () => this.showHeads(range(map.heads)), "All"),
        makeButton("kt-plain", "No head", () => this.showHeads([]), "None"),
      );
      const group = make("div", "kt-choice", { role: "group", "aria-label": "Heads" });
      group.append(make("div", "kt-legend", { "aria-hidden": "true" }, "Heads"), row);
      this.headPlace.replaceChildren(group);
    }

    makeHead(head) {
      const turn = () => {
        const { heads } = this.shown;
        const isShown = heads.includes(head);
        this.showHeads(isShown ? heads.filter((other) => other !== head) : [...heads, head]);
      };
      const swatch = make("span", "kt-swatch");
      const button = makeButton("kt-head", `Head ${head + 1}`, turn, swatch, `${head + 1}`);
      button.dataset.color = head % COLORS;
      return button;
    }

    showHeads(heads) {
      this.shown.chooseHeads(heads);
      this.onChange();
    }

    update() {
      for (const [name, choice] of Object.entries(this.choices)) choice.set(this.shown[name]);
      this.headButtons.forEach((button, head) => {
        button.setAttribute("aria-pressed", this.shown.heads.includes(head));
      });
    }
  }

  /** All parts together, and how they respond to pointer and keyboard. */
  class View {
    constructor(element, data) {
      const colorOf = (head) => this.colorOf(head);
      this.shown = new Shown(data);
      this.stop = new AbortController();
      this.probe = make("span", "kt-probe", { "aria-hidden": "true" });
      this.place = make("div", "kt-picture");
      this.caption = make("p", "kt-note kt-caption");
      this.details = new Details(this.shown, (place) => this.choose(place));
      this.overview = new Overview(this.shown, colorOf, (layer, head) => {
        this.shown.layer = layer;
        this.shown.chooseHeads([head]);
        this.draw();
      });
      this.controls = new Controls(`kt-attention-${++mounts}`, this.shown, {
        onKind: (kind) => this.chooseKind(kind),
        onChange: () => this.draw(),
      });
      const main = make("div", "kt-main", {}, this.place, this.caption);
      const side = make("div", "kt-side", {}, this.details.element, this.overview.element);
      const grid = make("div", "kt-grid", {}, this.controls.element, main, side);
      this.root = make("div", "kt-attention", {}, grid, this.probe);
      element.append(this.root);
      this.listen();
      this.chooseKind(this.shown.kind);
    }

    destroy() {
      this.stop.abort();
      this.observer.disconnect();
      this.root.remove();
    }

    listen() {
      const { signal } = this.stop;
      const on = (name, answer) => this.place.addEventListener(name, answer, { signal });
      on("pointerover", (event) => this.onPointer(event));
      on("pointermove", (event) => this.onPointer(event));
      on("pointerleave", () => this.hover(null));
      on("click", (event) => this.onClick(event));
      on("focusin", (event) => this.onFocus(event));
      on("keydown", (event) => this.onKey(event));
      // Repaint canvases when the page turns light or dark.
      const repaint = () => {
        this.overview.repaint();
        this.picture.repaint();
      };
      this.observer = new MutationObserver(repaint);
      this.observer.observe(document.documentElement, { attributes: true });
      const isDark = global.matchMedia("(prefers-color-scheme: dark)");
      isDark.addEventListener("change", repaint, { signal });
    }

    /** The color of a head, or of several (null), as [red, green, blue]. */
    colorOf(head) {
      this.probe.dataset.color = head === null ? "all" : head % COLORS;
      return getComputedStyle(this.probe).color.match(/\d+/g).slice(0, 3).map(Number);
    }

    chooseKind(kind) {
      this.shown.chooseKind(kind);
      this.controls.build();
      this.overview.build();
      this.draw();
    }

    /** Draw what depends on the choices. */
    draw() {
      const { shown } = this;
      const before = this.picture?.element;
      const scroll = before ? [before.scrollLeft, before.scrollTop] : [0, 0];
      this.controls.update();
      this.overview.update();
      const colorOf = (head) => this.colorOf(head);
      this.picture = shown.view === "lines" ? new Lines(shown) : new Matrix(shown, colorOf);
      this.place.replaceChildren(this.picture.element);
      this.picture.element.scrollTo(...scroll);
      this.update();
    }

    /** Draw what depends on the active token. */
    update() {
      const { shown, picture } = this;
      for (const side of SIDES) picture.lists[side].update(shown);
      this.caption.textContent = picture.update();
      this.details.update();
      const { active, cell } = shown;
      Object.assign(this.root.dataset, {
        kind: shown.kind,
        layer: shown.layer + 1,
        heads: shown.heads.map((head) => head + 1).join(" "),
        view: shown.view,
        focus: active ? `${active.side} ${active.index + 1}` : "",
        cell: cell === null ? "" : cell + 1,
        lines: picture.numLines ?? "",
      });
    }

    /** The token, or the cell of the matrix, at an event. */
    placeOf(event) {
      const option = event.target.closest(".kt-token");
      if (!option) return this.picture.cellAt(event);
      return { side: option.dataset.side, index: Number(option.dataset.index), cell: null };
    }

    /** Whether two places are the same; null means no place. */
    static isSame(one, other) {
      if (!one || !other) return one === other;
      const names = ["side", "index", "cell"];
      return names.every((name) => (one[name] ?? null) === (other[name] ?? null));
    }

    hover(place) {
      if (View.isSame(place, this.shown.hovered)) return;
      this.shown.hovered = place;
      this.shown.cell = place ? place.cell : null;
      this.update();
    }

    onPointer(event) {
      if (event.pointerType === "touch") return;
      const { clientX: x, clientY: y } = event;
      // Ignore what scrolls by under a resting pointer while the keyboard moves.
      if (this.pointer && this.pointer.x === x && this.pointer.y === y) return;
      this.pointer = { x, y };
      this.hover(this.placeOf(event));
    }

    /** Keep a token chosen and focus it; null releases it. */
    choose(place) {
      this.shown.hovered = this.pressed = null;
      this.shown.chosen = place;
      this.shown.cell = place?.cell ?? null;
      this.update();
      if (place) this.picture.lists[place.side].options[place.index].focus();
    }

    /** A click or tap keeps a token chosen; a second one, or one elsewhere, releases it. */
    onClick(event) {
      const place = this.placeOf(event);
      const isSecond = View.isSame(place, this.pressed ?? null);
      this.choose(isSecond ? null : place);
      this.pressed = isSecond ? null : place;
    }

    /** The keyboard has entered a list. */
    onFocus(event) {
      const place = this.placeOf(event);
      if (!place) return; // some browsers focus elements that scroll
      const { chosen } = this.shown;
      const isChosen = chosen && chosen.side === place.side && chosen.index === place.index;
      if (!isChosen && event.target.matches(":focus-visible")) this.choose(place);
    }

    onKey(event) {
      const place = this.placeOf(event);
      if (!place || event.altKey || event.ctrlKey || event.metaKey) return;
      const isEnd = event.key === "Escape" && this.shown.active; // else the page may use the key
      const next = this.picture.next(place, event.key);
      if (!next && !isEnd) return;
      event.preventDefault();
      this.choose(next);
    }
  }

  global.KerasTransformerAttention = Object.freeze({
    mount(element, data) {
      const view = new View(element, data);
      return { destroy: () => view.destroy() };
    },
  });
})(window);
