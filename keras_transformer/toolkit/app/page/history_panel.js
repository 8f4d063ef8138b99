// Recent translations, which this browser keeps.

import { announce, byId, make } from "./elements.js";
import { keep, recall } from "./storage.js";

const MOST_ENTRIES = 20;
const MOST_CHARACTERS = 10_000; // of a text or a translation; longer ones are not kept
const SHOWN = 120; // characters

export class HistoryPanel {
  /** `onChoose(entry)` is called with {text, translation, source, target}, of which the last two
      are codes of languages or null. */
  constructor(onChoose) {
    this.onChoose = onChoose;
    byId("history").hidden = false;
    byId("forget").addEventListener("click", () => {
      this.set([]);
      announce("The history is empty.");
      byId("history").querySelector("summary").focus();
    });
    this.draw();
  }

  /** The entries, newest first; other tabs add to them too. */
  get entries() {
    const kept = recall("history");
    if (!Array.isArray(kept)) return [];
    const isText = (value) => typeof value === "string";
    return kept.filter((one) => isText(one?.text) && isText(one.translation));
  }

  set(entries) {
    keep("history", entries.length ? entries : null);
    this.draw();
  }

  /** Adds a translation; it replaces one of the same text, or of a shorter version of the text. */
  add(entry) {
    if (Math.max(entry.text.length, entry.translation.length) > MOST_CHARACTERS) return;
    const [last, ...older] = this.entries;
    const others = last && isGrown(last, entry) ? older : this.entries;
    const rest = others.filter((one) => one.text !== entry.text || one.source !== entry.source);
    this.set([entry, ...rest].slice(0, MOST_ENTRIES));
  }

  draw() {
    const { entries } = this;
    byId("forget").hidden = !entries.length;
    byId("no-history").hidden = entries.length > 0;
    byId("entries").replaceChildren(...entries.map((entry) => this.drawEntry(entry)));
  }

  drawEntry(entry) {
    const { text, translation, source, target } = entry;
    const button = make("button", "entry", { type: "button" });
    for (const [said, language] of [
      [text, source],
      [translation, target],
    ]) {
      const line = make("span", "", { dir: "auto" }, said.slice(0, SHOWN));
      if (language) line.lang = language;
      button.append(line, " ");
    }
    button.addEventListener("click", () => this.onChoose(entry));
    return make("li", "", {}, button);
  }
}

/** Whether one text extends the other at its end, in the same language. */
function isGrown(before, after) {
  if (before.source !== after.source) return false;
  return after.text.startsWith(before.text) || before.text.startsWith(after.text);
}
