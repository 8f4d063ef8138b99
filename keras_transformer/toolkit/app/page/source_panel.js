// The text to translate: a text field, and behind it the same text with marked words.

import { byId, make, makeCopyButton } from "./elements.js";
import { keep, recall } from "./storage.js";

const MOST_KEPT = 100_000; // characters

export class SourcePanel {
  /** `limits` are the app's limits; `onInput()` is called when the text changes. */
  constructor(limits, onInput) {
    this.limits = limits;
    this.field = byId("text");
    this.backdrop = byId("backdrop");
    this.counter = byId("limits");
    this.clearButton = byId("clear");
    this.copyButton = makeCopyButton("the text", () => this.text);
    this.clearButton.before(this.copyButton);
    this.sentences = []; // of the sent text: {source, start}
    this.sentText = null;
    this.elements = []; // elements of these sentences, behind the field
    this.skipped = new Map(); // reasons by index of the sentence
    this.field.addEventListener("input", () => {
      this.refresh();
      onInput();
    });
    this.clearButton.addEventListener("click", () => {
      this.text = "";
      onInput();
      this.field.focus();
    });
    this.refresh();
  }

  /** The text of the last visit and its source language as {text, source}, or null. */
  static get kept() {
    const kept = recall("text");
    return typeof kept?.text === "string" && kept.text ? kept : null;
  }

  /** Keeps the text for the next visit, unless it is very long. */
  keep(source) {
    const { text } = this;
    keep("text", text && text.length <= MOST_KEPT ? { text, source } : null);
  }

  get text() {
    return this.field.value;
  }

  set text(text) {
    this.field.value = text;
    this.refresh();
  }

  get isTooLong() {
    return this.length > this.limits.characters;
  }

  /** Why the app would refuse the text; a text that is much too long would not even be read. */
  get fault() {
    const [most, length] = [this.limits.characters, this.length].map((n) => n.toLocaleString("en"));
    return `A request may have at most ${most} characters. Received: ${length}`;
  }

  /** Sets the positions of a text's sentences once the app has sent them. */
  setSentences(text, sentences) {
    if (this.sentText === text && this.text === text) return; // already set by another column
    let start = 0;
    this.sentText = text;
    this.sentences = sentences.map(({ source, before }) => {
      const sentence = { source, start: start + before.length };
      start = sentence.start + source.length;
      return sentence;
    });
    this.draw();
  }

  /** Marks a sentence that is too long, and says why it was skipped. */
  skip(index, reason) {
    this.skipped.set(index, reason);
    this.elements[index]?.classList.add("skipped");
    this.drawReasons();
  }

  /** Marks a sentence and some of its words, given as [start, end]; clears the marks for null. */
  mark(index, words = []) {
    this.elements.forEach((element, number) => {
      const { source } = this.sentences[number];
      const isMarked = number === index;
      if (!isMarked && !element.classList.contains("marked")) return;
      element.classList.toggle("marked", isMarked);
      element.replaceChildren();
      let end = 0;
      for (const [from, to] of isMarked ? words : []) {
        element.append(source.slice(end, from), make("mark", "linked", {}, source.slice(from, to)));
        end = to;
      }
      element.append(source.slice(end));
    });
  }

  /** Draws the text behind the field, with an element for each known sentence. */
  draw() {
    const { text } = this;
    const sentences = text === this.sentText ? this.sentences : [];
    this.elements = sentences.map(({ source }) => make("span", "", {}, source));
    this.skipped.clear();
    this.drawReasons();
    this.backdrop.replaceChildren();
    let end = 0;
    sentences.forEach(({ source, start }, index) => {
      this.backdrop.append(text.slice(end, start), this.elements[index]);
      end = start + source.length;
    });
    this.backdrop.append(`${text.slice(end)}\n`);
  }

  drawReasons() {
    const reasons = [...this.skipped.values()];
    const advice = reasons.length > 1 ? "Shorten or split them." : "Shorten or split it.";
    byId("skipped").textContent = reasons.length ? `${reasons.join(" ")} ${advice}` : "";
    byId("skipped").hidden = !reasons.length;
  }

  refresh() {
    this.length = [...this.text].length; // number of characters as the app counts them
    const most = this.limits.characters.toLocaleString("en");
    const sentences = this.limits.sentences.toLocaleString("en");
    const number = this.length.toLocaleString("en");
    this.counter.replaceChildren(
      make("span", "", {}, `${number} of ${most} characters,`),
      " ",
      make("span", "", {}, `at most ${sentences} sentences`),
    );
    this.counter.classList.toggle("over", this.isTooLong);
    this.clearButton.hidden = !this.text;
    this.copyButton.hidden = !this.text;
    byId("examples").hidden = Boolean(this.text);
    this.draw();
  }
}

/** Positions of words in a text, in order: [start, end], or null for a word that is not there. */
export function locate(words, text) {
  let from = 0;
  return words.map((word) => {
    const start = text.indexOf(word, from);
    if (start < 0) return null;
    from = start + word.length;
    return [start, from];
  });
}
