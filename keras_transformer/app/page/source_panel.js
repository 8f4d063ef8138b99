// The text to translate: a field, and behind it the same text with marked words.

import { byId, make } from "./elements.js";

export class SourcePanel {
  /** `limits` are the app's; `onInput()` is called when the text changes. */
  constructor(limits, onInput) {
    this.limits = limits;
    this.field = byId("text");
    this.backdrop = byId("backdrop");
    this.counter = byId("limits");
    this.clearButton = byId("clear");
    this.sentences = []; // of the text that was sent: {source, start}
    this.sentText = null;
    this.field.addEventListener("input", () => {
      this.refresh();
      onInput();
    });
    this.clearButton.addEventListener("click", () => {
      this.field.value = "";
      this.refresh();
      onInput();
      this.field.focus();
    });
    this.refresh();
  }

  get text() {
    return this.field.value;
  }

  get isTooLong() {
    return this.length > this.limits.characters;
  }

  /** Why the app would refuse the text; it would not even read one that is much too long. */
  get fault() {
    const [most, length] = [this.limits.characters, this.length].map((n) => n.toLocaleString("en"));
    return `A request may have at most ${most} characters. Received: ${length}`;
  }

  /** Takes where the sentences of a text are, once the app has told. */
  setSentences(text, sentences) {
    let start = 0;
    this.sentText = text;
    this.sentences = sentences.map(({ source, before }) => {
      const sentence = { source, start: start + before.length };
      start = sentence.start + source.length;
      return sentence;
    });
  }

  /** Marks a sentence, and in it words, given as [start, end]; without a sentence, nothing. */
  mark(index, words = []) {
    const text = this.text;
    const sentence = index === null || text !== this.sentText ? null : this.sentences[index];
    if (!sentence) {
      this.backdrop.replaceChildren(`${text}\n`);
      return;
    }
    const { start, source } = sentence;
    const marked = make("mark");
    let end = 0;
    for (const [from, to] of words) {
      marked.append(source.slice(end, from), make("mark", "linked", {}, source.slice(from, to)));
      end = to;
    }
    marked.append(source.slice(end));
    const rest = text.slice(start + source.length);
    this.backdrop.replaceChildren(text.slice(0, start), marked, `${rest}\n`);
  }

  refresh() {
    this.length = [...this.text].length; // in characters, as the app counts them
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
    this.mark(null);
  }
}

/** Where words are in a text, one after the other: [start, end], or null for one that is not. */
export function locate(words, text) {
  let from = 0;
  return words.map((word) => {
    const start = text.indexOf(word, from);
    if (start < 0) return null;
    from = start + word.length;
    return [start, from];
  });
}
