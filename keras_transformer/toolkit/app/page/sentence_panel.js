// The selected sentence: its aligned words, the n best translations, and the attention.

import { linkedWords } from "./aligner.js";
import { post, RequestFailed } from "./client.js";
import { byId, make, scoreText } from "./elements.js";
import { keepStop, rove } from "./roving.js";
import { textOf } from "./translation_column.js";

export class SentencePanel {
  /** `events` has step(by), close() and link(column, index, words). */
  constructor(events) {
    this.columns = []; // the shown columns
    this.events = events;
    this.index = null;
    this.groups = new Map(); // elements of words by column: {source, target}
    this.attention = null; // {column, target, component, request}
    this.element = byId("sentence");
    byId("previous").addEventListener("click", () => events.step(-1));
    byId("next").addEventListener("click", () => events.step(1));
    byId("close").addEventListener("click", () => events.close());
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.defaultPrevented) events.close();
    });
  }

  /** Shows a sentence, or nothing for null. */
  show(index) {
    this.index = index;
    this.element.hidden = index === null;
    if (index === null) {
      this.hideAttention();
      return;
    }
    this.number();
    byId("sentence-runs").replaceChildren(...this.columns.map((column) => this.draw(column)));
    if (this.attention) this.showAttention(this.attention.column);
  }

  /** Shows the number of the sentence, if one is shown. */
  number() {
    if (this.index === null) return;
    const total = Math.max(...this.columns.map((column) => column.sentences.length));
    byId("sentence-title").textContent = `Sentence ${this.index + 1} of ${total}`;
    byId("previous").disabled = this.index === 0;
    byId("next").disabled = this.index === total - 1;
  }

  focus() {
    byId("sentence-title").focus();
  }

  /** Draws a column's part again when its translation or its alignment has arrived. */
  refresh(column) {
    if (this.index === null) return;
    const number = this.columns.indexOf(column);
    const old = byId("sentence-runs").children[number];
    const focused = old?.contains(document.activeElement) ? document.activeElement : null;
    const parts = this.draw(column);
    old?.replaceWith(parts);
    if (focused?.name) parts.querySelector(`[name="${focused.name}"]:checked`)?.focus();
    if (this.attention?.column === column) this.showAttention(column);
  }

  draw(column) {
    const number = this.columns.indexOf(column);
    const sentence = column.sentences[this.index];
    const part = make("div", "sentence-run");
    if (this.columns.length > 1) part.append(make("h3", "", {}, column.run.name));
    if (!sentence?.translations || sentence.isOld) {
      const reason = sentence?.fault ? `Not translated. ${sentence.fault}` : "Not translated yet.";
      part.append(make("p", "muted", {}, reason));
      return part;
    }
    part.append(make("h4", "", {}, "Aligned words"), ...this.words(column, sentence));
    const best = sentence.translations.length;
    part.append(make("h4", "", {}, best > 1 ? `The ${best} best translations` : "Translation"));
    part.append(this.candidates(column, sentence, number));
    const isShown = this.attention?.column === column;
    const show = make("button", "show", { type: "button", "aria-expanded": String(isShown) });
    show.textContent = isShown ? "Hide attention" : "Show attention";
    show.addEventListener("click", () => {
      const others = this.attention?.column;
      if (others === column) this.hideAttention();
      else this.showAttention(column);
      if (others && others !== column) this.refresh(others);
      this.refresh(column);
      byId("sentence-runs").children[number].querySelector(".show").focus();
    });
    part.append(show);
    return part;
  }

  /** Two lines of words; pointing at a word shows the words aligned with it. */
  words(column, sentence) {
    const { alignment } = sentence;
    if (!alignment) {
      return [make("p", "muted", {}, alignment === null ? "Not available." : "…")];
    }
    const groups = {};
    for (const side of ["source", "target"]) {
      const label = side === "source" ? "Words of the sentence" : "Words of the translation";
      const group = make("div", "words", { role: "group", "aria-label": label, dir: "auto" });
      group.lang = side === "source" ? (column.run.source_language ?? "") : column.body.lang;
      alignment[`${side}_words`].forEach((word, index) => {
        const links = linkedWords(alignment, side, index);
        const others = [...links[side === "source" ? "target" : "source"]];
        const names = others.map(
          (other) => alignment[side === "source" ? "target_words" : "source_words"][other],
        );
        const spoken = `${word}: ${names.join(", ") || "nothing"}`;
        const button = make("button", "word", { type: "button", "aria-label": spoken }, word);
        button.tabIndex = -1;
        const link = () => this.events.link(column, this.index, links);
        for (const kind of ["pointerenter", "focus", "click"]) button.addEventListener(kind, link);
        group.append(button);
      });
      const unlink = () => this.events.link(column, this.index, null);
      for (const kind of ["pointerleave", "focusout"]) group.addEventListener(kind, unlink);
      rove(group, ".word");
      keepStop(group, ".word");
      groups[side] = group;
    }
    this.groups.set(column, groups);
    return [groups.source, groups.target];
  }

  /** Marks the words of the sentence and of a column's translation. */
  mark(column, words) {
    for (const side of ["source", "target"]) {
      const group = this.groups.get(column)?.[side];
      [...(group?.children ?? [])].forEach((word, index) =>
        word.classList.toggle("linked", Boolean(words?.[side].has(index))),
      );
    }
  }

  candidates(column, sentence, number) {
    const label = `Best translations by ${column.run.name}`;
    const list = make("fieldset", "candidates", { "aria-label": label });
    sentence.translations.forEach(({ text, score }, index) => {
      const name = `candidate-${number}`;
      const radio = make("input", "", { type: "radio", name, value: index });
      radio.checked = index === sentence.chosen;
      radio.addEventListener("change", () => column.choose(this.index, index));
      const said = make("span", "", { dir: "auto", lang: column.body.lang }, text || "∅");
      const title = "Length-normalized log-probability";
      const rank = make("span", "score", { title }, scoreText(score));
      list.append(make("label", "", {}, radio, said, rank));
    });
    return list;
  }

  async showAttention(column) {
    const sentence = column.sentences[this.index];
    if (!sentence?.translations) {
      this.hideAttention();
      this.attention = { column, request: new AbortController(), component: null }; // to come
      return;
    }
    const target = textOf(sentence);
    const shown = this.attention;
    const isSame = shown?.column === column && shown.source === sentence.source;
    if (isSame && shown.target === target) return;
    this.hideAttention();
    const request = new AbortController();
    const mine = { column, source: sentence.source, target, request, component: null };
    this.attention = mine;
    const area = byId("attention");
    const waits = make("p", "muted", {}, "…");
    area.replaceChildren(make("h3", "", {}, `Attention of ${column.run.name}`), waits);
    area.hidden = false;
    const body = { run: column.run.name, source: sentence.source, target };
    try {
      const language = column.aligner.language;
      const data = await post(
        "api/attention",
        { ...body, target_language: language },
        request.signal,
      );
      if (this.attention !== mine) return;
      waits.remove();
      mine.component = globalThis.KerasTransformerAttention.mount(area, data);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof RequestFailed)) throw error;
      waits.className = "fault";
      waits.textContent = error.message;
    }
  }

  hideAttention() {
    this.attention?.request.abort();
    this.attention?.component?.destroy();
    this.attention = null;
    byId("attention").hidden = true;
    byId("attention").replaceChildren();
  }
}
