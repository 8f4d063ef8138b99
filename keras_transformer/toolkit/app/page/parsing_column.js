// The trees of a run, one below another.

import { Column } from "./column.js";
import { make, makeCopyButton, scoreText } from "./elements.js";
import { drawTree } from "./tree_drawing.js";

export class ParsingColumn extends Column {
  /** `events` has begin(column, text, sentences), skipped(index, reason) and near(index). */
  constructor(run, events) {
    const copy = makeCopyButton("the trees", () => this.trees.filter(Boolean).join("\n"));
    super(run, "api/parse/stream", copy);
    this.events = events;
    this.trees = []; // in brackets
    this.body.classList.add("trees");
    this.body.dataset.empty = "The trees appear here.";
    this.element.classList.add("wide");
  }

  clear() {
    this.stop();
    this.setFault("");
    this.trees = [];
    this.body.replaceChildren();
  }

  begin(text, sentences) {
    this.trees = sentences.map(() => null);
    this.body.replaceChildren(
      ...sentences.map((_, index) => {
        const place = make("div", "tree", {}, make("span", "dots", {}, "…"));
        place.addEventListener("pointerenter", () => this.events.near(index));
        place.addEventListener("focusin", () => this.events.near(index));
        place.addEventListener("pointerleave", () => this.events.near(null));
        return place;
      }),
    );
    this.events.begin(this, text, sentences);
  }

  add({ index, tree, nodes, score }) {
    this.trees[index] = tree;
    const place = this.body.children[index];
    if (!nodes.length) {
      place.replaceChildren(make("p", "muted", {}, "No words."));
      return;
    }
    const said =
      score === null ? "No tree was found: this is a flat tree." : `Score ${scoreText(score)}`;
    const brackets = make("pre", "brackets", { tabindex: "0" }, make("code", "", {}, tree));
    place.replaceChildren(
      drawTree(nodes, `Tree of sentence ${index + 1}`),
      make("p", "muted", {}, said),
      make("details", "", {}, make("summary", "", {}, "In brackets"), brackets),
    );
  }

  /** Shows why a sentence has no tree. */
  skip({ index, error }) {
    const reason = make("p", "skipped", {}, `No tree. ${error.message}`);
    this.body.children[index].replaceChildren(reason);
    this.events.skipped(index, error.message);
  }

  breakOff() {
    for (const dots of this.body.querySelectorAll(".dots")) dots.remove();
  }

  near() {}

  select() {}
}
