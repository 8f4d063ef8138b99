// A constituency tree as SVG: phrases above their words. The arrow keys move in it.

import { make, makeSvg } from "./elements.js";

const LEVEL = 46; // pixels between a phrase and its contents
const GAP = 18; // between words
const TOP = 16;
const MARGIN = 12;
const HEIGHT = 24; // of a label
const KEYS = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home"];
const NO_TAG = "XX"; // a word whose tag is not predicted

/** Draws the nodes of the JSON interface, {parent, label, word}, parents before children. */
export function drawTree(nodes, name) {
  const tree = laidOut(nodes);
  const width = Math.ceil(tree.width);
  const height = Math.ceil(tree.height);
  const svg = makeSvg("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "tree",
    "aria-label": name,
  });
  const edges = tree.nodes.map((node) => edge(node, tree.nodes[node.parent]));
  const boxes = tree.nodes.map((node) => box(node));
  svg.append(...edges.filter(Boolean), ...boxes);
  boxes[0].setAttribute("tabindex", "0");

  /** Marks a phrase and its contents. */
  const mark = (index) => {
    tree.nodes.forEach((node, number) => {
      const inside = index !== null && isInside(tree.nodes, number, index);
      boxes[number].classList.toggle("inside", inside);
      edges[number]?.classList.toggle("inside", inside && number !== index);
    });
  };
  let focused = null;
  boxes.forEach((element, index) => {
    element.addEventListener("pointerenter", () => mark(index));
    element.addEventListener("click", () => element.focus());
    element.addEventListener("focus", () => {
      focused = index;
      mark(index);
      boxes.forEach((other) => other.setAttribute("tabindex", other === element ? 0 : -1));
      element.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
  });
  svg.addEventListener("pointerleave", () => mark(focused));
  svg.addEventListener("focusout", () => {
    focused = null;
    mark(null);
  });
  svg.addEventListener("keydown", (event) => {
    if (!KEYS.includes(event.key)) return;
    event.preventDefault();
    const there = neighbour(tree.nodes, boxes.indexOf(event.target), event.key);
    boxes[there]?.focus();
  });
  // A tree wider than the page scrolls; its root is in the middle.
  const view = make("div", "tree-view", {}, svg);
  requestAnimationFrame(() => (view.scrollLeft = tree.nodes[0].x - view.clientWidth / 2));
  return view;
}

/** Positions: words side by side below their phrases, a phrase above the middle of its words. */
function laidOut(given) {
  const nodes = given.map((node) => ({ ...node, children: [], level: 0 }));
  nodes.forEach((node, index) => {
    if (node.parent === null) return;
    nodes[node.parent].children.push(index);
    node.level = nodes[node.parent].level + 1;
  });
  const widthOf = textMeasure();
  let right = MARGIN;
  for (const node of nodes) {
    const label = node.word ?? node.label;
    node.text = label;
    node.width = widthOf(label, node.word === null) + 12;
    if (!node.children.length) {
      node.x = right + node.width / 2;
      right += node.width + GAP;
    }
  }
  for (const node of [...nodes].reverse()) {
    const { children } = node;
    if (children.length) node.x = (nodes[children[0]].x + nodes[children.at(-1)].x) / 2;
  }
  // A label may be wider than the words below it.
  const left = Math.min(...nodes.map((node) => node.x - node.width / 2)) - MARGIN;
  for (const node of nodes) {
    node.x -= left;
    node.y = TOP + node.level * LEVEL;
  }
  const width = Math.max(...nodes.map((node) => node.x + node.width / 2)) + MARGIN;
  return { nodes, width, height: Math.max(...nodes.map((node) => node.y)) + HEIGHT };
}

function textMeasure() {
  const context = document.createElement("canvas").getContext("2d");
  const family = getComputedStyle(document.body).fontFamily;
  return (text, isLabel) => {
    context.font = isLabel ? `600 13px ${family}` : `15px ${family}`;
    return context.measureText(text).width;
  };
}

function edge(node, parent) {
  if (!parent) return null;
  const from = parent.y + HEIGHT / 2 - 2;
  const to = node.y - HEIGHT / 2 + 2;
  return makeSvg("path", { d: `M${parent.x} ${from} L${node.x} ${to}` });
}

function box(node) {
  const { x, y, width, text, word, label } = node;
  const isWord = word !== null;
  const words = isWord && label !== NO_TAG ? `${word}, ${label}` : text;
  const element = makeSvg("g", {
    class: isWord ? "leaf" : "phrase",
    role: "treeitem",
    tabindex: "-1",
    "aria-level": node.level + 1,
    "aria-label": words,
  });
  const corner = { x: x - width / 2, y: y - HEIGHT / 2, width, height: HEIGHT, rx: 6 };
  const written = makeSvg("text", { x, y: y + 5 }, text);
  element.append(makeSvg("rect", corner), written);
  return element;
}

function isInside(nodes, index, ancestor) {
  for (let here = index; here !== null; here = nodes[here].parent) {
    if (here === ancestor) return true;
  }
  return false;
}

/** Where an arrow key leads: to the parent, the first child, or the next node on the level. */
function neighbour(nodes, index, key) {
  const node = nodes[index];
  if (key === "ArrowUp") return node.parent ?? undefined;
  if (key === "ArrowDown") return node.children[0];
  if (key === "Home") return 0;
  const level = nodes.map((_, number) => number).filter((one) => nodes[one].level === node.level);
  const place = level.indexOf(index);
  if (key === "ArrowLeft") return level[place - 1];
  if (key === "ArrowRight") return level[place + 1];
  return undefined;
}
