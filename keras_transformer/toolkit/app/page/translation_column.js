// The translation of a run: sentences to select, and words that show where they come from.

import { Aligner, linkedWords } from "./aligner.js";
import { post } from "./client.js";
import { Column } from "./column.js";
import { showDocument } from "./document_view.js";
import { make, makeCopyButton } from "./elements.js";
import { keepStop, rove } from "./roving.js";

const SENTENCE = ".sentence[role=button]";

export class TranslationColumn extends Column {
  /** `events` has begin(column, text, sentences), select(index, byKey), near(index),
      link(column, index, words), changed(column, index), skipped(index, reason) and close(). */
  constructor(run, events) {
    const copy = makeCopyButton("the translation", () => this.text);
    super(run, "api/translate/stream", copy);
    this.events = events;
    this.aligner = new Aligner(run);
    // {source, before, translations, chosen, isOld, fault, alignment, element}; an alignment is
    // undefined until it arrives, and null if there is none. A fault is why a sentence was skipped.
    this.sentences = [];
    this.document = null; // the translation of a text with markup
    this.body.ariaLabel = `Translation by ${run.name}`;
    this.body.dataset.empty = "The translation appears here.";
    this.body.dir = "auto";
    this.body.lang = run.target_language ?? "";
    this.body.role = "group";
    this.listen();
  }

  get text() {
    if (this.document !== null) return this.document;
    const known = this.sentences.filter(({ translations, fault }) => translations || fault);
    return known.map((one) => one.before + (one.fault ? one.source : textOf(one))).join("");
  }

  /** The elements of the sentences. */
  get elements() {
    return this.sentences.map(({ element }) => element);
  }

  send(text, settings) {
    this.aligner.reset(settings.target_language);
    this.body.lang = settings.target_language ?? this.run.target_language ?? "";
    if (!settings.markup) return super.send(text, settings);
    return this.ask((request) => this.receiveDocument(request, text, settings));
  }

  async receiveDocument(request, text, settings) {
    const { markup } = settings;
    const body = { ...settings, text, run: this.run.name, n_best: 1 };
    this.status.textContent = "…";
    const answer = await post("api/translate", body, request.signal);
    if (this.request !== request) return null;
    this.begin(text, []);
    this.document = answer.text;
    this.body.replaceChildren(...showDocument(answer.text, markup, this.body.lang));
    return "1 document";
  }

  clear() {
    this.stop();
    this.setFault("");
    this.sentences = [];
    this.document = null;
    this.body.replaceChildren();
  }

  /** Sets the sentences of a text; their previous translations stay for now. */
  begin(text, sentences) {
    const old = new Map(this.sentences.map((sentence) => [sentence.source, sentence]));
    this.document = null;
    this.sentences = sentences.map(({ source, before }) => ({
      source,
      before,
      translations: old.get(source)?.translations ?? null,
      chosen: 0,
      isOld: true,
      fault: null,
      alignment: undefined,
      element: make("span", "sentence awaited"),
    }));
    this.body.replaceChildren();
    this.sentences.forEach((sentence, index) => {
      this.body.append(sentence.before, sentence.element);
      this.draw(index);
    });
    this.events.begin(this, text, sentences);
  }

  add({ index, translations }) {
    const sentence = this.sentences[index];
    sentence.translations = translations;
    sentence.isOld = false;
    this.draw(index);
    keepStop(this.body, SENTENCE);
    this.align(index);
    this.events.changed(this, index);
  }

  /** Shows why a sentence is not translated. */
  skip({ index, error }) {
    const sentence = this.sentences[index];
    Object.assign(sentence, { translations: null, isOld: false, fault: error.message });
    this.draw(index);
    this.events.skipped(index, error.message);
    this.events.changed(this, index);
  }

  /** Forgets the sentences that will not arrive. */
  breakOff() {
    if (this.document !== null) this.clear();
    this.sentences.forEach((sentence, index) => {
      if (!sentence.isOld) return;
      sentence.translations = null;
      sentence.element.replaceChildren();
      this.events.changed(this, index);
    });
  }

  /** Selects another one of the n best translations. */
  choose(index, candidate) {
    const sentence = this.sentences[index];
    if (sentence.isOld || !sentence.translations) return;
    sentence.chosen = candidate;
    this.draw(index);
    this.align(index);
    this.events.changed(this, index);
  }

  async align(index) {
    const sentence = this.sentences[index];
    const target = textOf(sentence);
    sentence.alignment = undefined;
    const alignment = await this.aligner.align(sentence.source, target);
    if (this.sentences[index] !== sentence || textOf(sentence) !== target) return;
    sentence.alignment = alignment;
    this.events.changed(this, index);
    const word = sentence.element.querySelector(".word:hover");
    if (word) this.point(index, word);
  }

  draw(index) {
    const sentence = this.sentences[index];
    const { element, translations, isOld, fault } = sentence;
    element.dataset.index = index;
    element.classList.toggle("awaited", isOld);
    if (fault) {
      element.classList.add("skipped");
      element.replaceChildren(`Not translated. ${fault}`);
      return;
    }
    if (!isOld && !element.role) {
      element.role = "button";
      element.tabIndex = -1;
      element.setAttribute("aria-pressed", "false");
    }
    if (!translations) {
      element.replaceChildren(make("span", "dots", {}, "…"));
      return;
    }
    const parts = textOf(sentence).split(/(\s+)/u);
    let word = 0;
    element.replaceChildren(
      ...parts.map((part) =>
        part.trim() ? make("span", "word", { "data-word": word++ }, part) : part,
      ),
    );
    if (!textOf(sentence).trim()) element.append("∅");
  }

  /** Shows which sentence is selected, if any. */
  select(index) {
    this.sentences.forEach(({ element, isOld, fault }, number) => {
      if (!isOld && !fault) element.setAttribute("aria-pressed", String(number === index));
    });
  }

  /** Shows which sentence the pointer is on, in this column or another one. */
  near(index) {
    this.sentences.forEach(({ element }, number) =>
      element.classList.toggle("near", number === index),
    );
  }

  /** Marks words of a sentence, by their indices. */
  mark(index, words) {
    for (const marked of this.body.querySelectorAll(".linked")) marked.classList.remove("linked");
    const spans = this.sentences[index]?.element.querySelectorAll(".word") ?? [];
    const known = this.sentences[index]?.alignment?.target_words.length;
    if (spans.length !== known) return; // the tokenizer splits into different words
    for (const word of words) spans[word].classList.add("linked");
  }

  listen() {
    rove(this.body, SENTENCE);
    const indexOf = (event) => {
      const found = event.target.closest?.(SENTENCE);
      return found ? Number(found.dataset.index) : null;
    };
    this.body.addEventListener("click", (event) => {
      const index = indexOf(event);
      if (index !== null) this.events.select(index, false, this);
    });
    this.body.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.events.close();
      const index = indexOf(event);
      if (index === null || (event.key !== "Enter" && event.key !== " ")) return;
      event.preventDefault();
      this.events.select(index, true, this);
    });
    for (const kind of ["pointerover", "focusin"]) {
      this.body.addEventListener(kind, (event) => {
        // A click focuses a sentence while the pointer is on one of its words.
        const word = event.target.querySelector?.(".word:hover");
        this.point(indexOf(event), word ?? event.target);
      });
    }
    for (const kind of ["pointerleave", "focusout"]) {
      this.body.addEventListener(kind, () => this.point(null, null));
    }
  }

  /** The pointer or the focus is on a sentence, and perhaps on a word in it. */
  point(index, target) {
    this.events.near(index);
    const word = target?.closest(".word");
    const alignment = this.sentences[index]?.alignment;
    const spans = this.sentences[index]?.element.querySelectorAll(".word").length;
    if (!word || !alignment || alignment.target_words.length !== spans) {
      if (index !== null) this.events.link(this, index, null);
      return;
    }
    this.events.link(this, index, linkedWords(alignment, "target", Number(word.dataset.word)));
  }
}

/** The shown translation of a sentence. */
export function textOf(sentence) {
  return sentence.translations[sentence.chosen].text;
}
