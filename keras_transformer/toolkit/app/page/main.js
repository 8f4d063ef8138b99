// The page: a text, a column for each run, and the chosen sentence.

import { get, RequestFailed } from "./client.js";
import { announce, byId, make } from "./elements.js";
import { showExamples } from "./examples.js";
import { HistoryPanel } from "./history_panel.js";
import { JointScroll } from "./joint_scroll.js";
import { directions, languageName, languagesOf, sourceLanguage } from "./languages.js";
import { ParsingColumn } from "./parsing_column.js";
import { SearchForm } from "./search_form.js";
import { SentencePanel } from "./sentence_panel.js";
import { locate, SourcePanel } from "./source_panel.js";
import { addTheme } from "./theme.js";
import { TranslationColumn } from "./translation_column.js";

const PAUSE = 500; // milliseconds without typing before a text is sent

class App {
  constructor({ runs, limits }, options) {
    this.directions = directions(runs); // [the runs shown, the runs shown after a swap]
    this.timer = null;
    this.chosen = null; // index of the selected sentence
    this.linked = null; // {column, index, words}: what the pointer is on
    this.source = new SourcePanel(limits, () => this.onInput());
    this.form = new SearchForm(runs, options, () => this.onOption());
    const events = {
      begin: (column, text, sentences) => this.begin(column, text, sentences),
      close: () => this.close(),
      changed: (column, index) => this.changed(column, index),
      link: (column, index, words) => this.link(column, index, words),
      near: (index) => this.near(index),
      skipped: (index, reason) => this.source.skip(index, reason),
      select: (index, byKey, column) => this.select(index, byKey, column),
    };
    this.allColumns = runs.map((run) =>
      run.kind === "parsing" ? new ParsingColumn(run, events) : new TranslationColumn(run, events),
    );
    this.panel = new SentencePanel({
      close: () => this.close(),
      link: (column, index, words) => this.link(column, index, words),
      step: (by) => this.select(this.chosen + by, false),
    });
    this.scroll = new JointScroll();
    const translates = runs.some(({ kind }) => kind === "translation");
    this.history = translates ? new HistoryPanel((entry) => this.choose(entry)) : null;
    this.arrange();
    this.listen();
    if (this.source.text) this.onInput(); // typed while the page was loading
    else if (SourcePanel.kept) this.replace(SourcePanel.kept);
  }

  /** Fits the page to the shown runs. */
  arrange() {
    const [runs, swapped] = this.directions;
    this.language = sourceLanguage(runs);
    this.columns = this.allColumns.filter(({ run }) => runs.includes(run));
    this.translations = this.columns.filter((column) => column instanceof TranslationColumn);
    this.panel.columns = this.translations;
    const kinds = new Set(runs.map(({ kind }) => kind));
    this.verb = kinds.size > 1 ? "Go" : kinds.has("parsing") ? "Parse" : "Translate";
    byId("go").textContent = this.verb;
    byId("panels").classList.toggle("beside", runs.length === 1 && !kinds.has("parsing"));
    byId("columns").replaceChildren(...this.columns.map(({ element }) => element));
    byId("text").placeholder = kinds.has("parsing")
      ? "Type or paste text. For trees, put spaces around punctuation marks , like this ."
      : "Type or paste text.";
    byId("text").lang = this.language ?? "";
    byId("source-language").textContent = this.language ? languageName(this.language) : "";
    byId("source-language").hidden = !this.language;
    byId("swap").hidden = swapped.every((run) => runs.includes(run));
    const languages = [...new Set(runs.flatMap((run) => run.target_languages))];
    byId("language").hidden = !languages.length;
    byId("target-language").replaceChildren(
      ...languages.map((code) => make("option", "", { value: code }, languageName(code))),
    );
    showExamples(runs, (text) => this.choose({ text }));
    this.scroll.join([
      { element: byId("backdrop").parentElement, sentences: () => this.source.elements },
      ...this.translations.map((column) => ({
        element: column.body,
        sentences: () => column.elements,
      })),
    ]);
  }

  /** Reverses the direction. */
  turn() {
    this.stop();
    this.close();
    for (const column of this.columns) column.clear();
    this.directions.reverse();
    this.arrange();
  }

  /** Reverses the direction, and translates the translation back. */
  swap() {
    const [shown, swapped] = this.directions;
    const translation = this.translations.find(({ run }) => !swapped.includes(run)).text;
    this.turn();
    announce(languagesOf(swapped.find((run) => !shown.includes(run))));
    this.replace({ text: translation || this.source.text });
  }

  /** Translates a different text, in the direction of its language. */
  replace({ text, source }) {
    const [isRead, isReadAfterSwap] = this.directions.map((runs) =>
      runs.some((run) => run.source_language === source),
    );
    if (source && !isRead && isReadAfterSwap) this.turn();
    this.source.text = text;
    this.onInput();
    this.send();
  }

  /** Translates a text that was chosen with a button, which may have disappeared since. */
  choose(entry) {
    this.replace(entry);
    byId("text").focus();
  }

  listen() {
    byId("go").addEventListener("click", () => (this.isBusy ? this.stop() : this.send(true)));
    byId("swap").addEventListener("click", () => this.swap());
    addEventListener("resize", () => this.scroll.refresh());
    byId("target-language").addEventListener("change", () => this.onOption());
    byId("typing").addEventListener("change", () => this.onInput());
    byId("text").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.send();
    });
  }

  get isBusy() {
    return this.columns.some((column) => column.isBusy);
  }

  onInput() {
    clearTimeout(this.timer);
    this.source.keep(this.language);
    if (!this.source.text.trim()) {
      this.stop();
      this.close();
      for (const column of this.columns) column.clear();
    } else if (byId("typing").checked) {
      this.timer = setTimeout(() => this.send(), PAUSE);
    }
  }

  onOption() {
    if (this.source.text.trim()) this.send(true);
  }

  stop() {
    clearTimeout(this.timer);
    for (const column of this.columns) column.halt();
    this.showBusy();
  }

  /** Sends the text. An invalid option is reported; with `showsOptions`, it also gets the focus,
      which would be a nuisance while typing. */
  send(showsOptions = false) {
    clearTimeout(this.timer);
    const { text } = this.source;
    if (!text.trim()) return;
    const wrong = this.form.fault;
    if (wrong || this.source.isTooLong) {
      for (const column of this.columns) column.refuse(wrong ?? this.source.fault);
      this.showBusy();
      if (wrong && showsOptions) this.form.report();
      return;
    }
    for (const column of this.columns) {
      const answered = column.send(text, this.settings(column.run)).then((isWhole) => {
        if (isWhole && column === this.translations[0]) this.record(column, text);
      });
      answered.finally(() => this.showBusy());
    }
    this.showBusy();
  }

  /** Adds a translation to the history. */
  record(column, text) {
    const translation = column.text;
    const { source_language: source, target_language: target } = column.run;
    this.history.add({ text, translation, source, target });
  }

  /** The fields of a request to a run, except the text. */
  settings(run) {
    const settings = this.form.settings(run);
    const language = byId("target-language").value;
    if (run.target_languages.includes(language)) settings.target_language = language;
    return settings;
  }

  showBusy() {
    byId("go").textContent = this.isBusy ? "Stop" : this.verb;
  }

  begin(column, text, sentences) {
    this.source.setSentences(text, sentences);
    if (this.chosen !== null && this.chosen >= sentences.length) this.close();
    this.panel.number();
    if (this.translations.includes(column)) this.panel.refresh(column);
    this.scroll.refresh();
  }

  changed(column, index) {
    this.scroll.refresh();
    if (index !== this.chosen) return;
    column.select(index);
    this.panel.refresh(column);
    this.markPanel();
  }

  select(index, byKey, column) {
    this.chosen = index;
    this.from = column ?? this.from;
    for (const one of this.columns) one.select(index);
    this.panel.show(index);
    if (byKey || !column) this.near(null);
    else this.markPanel(); // the pointer is on a word of the sentence
    if (byKey) this.panel.focus();
    else if (column) announce(`Sentence ${index + 1} is shown below.`);
  }

  close() {
    const index = this.chosen;
    if (index === null) return;
    const hadFocus = byId("sentence").contains(document.activeElement);
    this.chosen = null;
    for (const column of this.columns) column.select(null);
    this.panel.show(null);
    this.near(null);
    if (hadFocus) this.from?.sentences[index]?.element.focus();
  }

  /** Marks the sentence under the pointer everywhere, or the selected sentence if there is none. */
  near(index) {
    for (const column of this.columns) column.near(index);
    this.source.mark(index ?? this.chosen);
    if (index === null) this.unlink();
  }

  /** Marks the words of a sentence and of a column's translation: sets of indices, or null. */
  link(column, index, words) {
    this.unlink();
    const { source, alignment } = column.sentences[index] ?? {};
    if (!words || !alignment) {
      this.source.mark(index ?? this.chosen);
      return;
    }
    const places = locate(alignment.source_words, source);
    const linked = [...words.source].sort((a, b) => a - b).map((word) => places[word]);
    this.source.mark(index, linked.filter(Boolean));
    column.mark(index, words.target);
    this.linked = { column, index, words };
    this.markPanel();
  }

  /** Marks the linked words in the panel, where it shows their sentence. */
  markPanel() {
    const { column, index, words } = this.linked ?? {};
    if (column && index === this.chosen) this.panel.mark(column, words);
  }

  unlink() {
    this.linked = null;
    for (const column of this.translations) {
      column.mark(null, []);
      this.panel.mark(column, null);
    }
  }
}

addTheme();
try {
  const found = ["api/runs", "page/search_options.json"].map(get);
  new App(...(await Promise.all(found)));
} catch (error) {
  if (!(error instanceof RequestFailed)) throw error;
  byId("fault").textContent = error.message;
  byId("fault").hidden = false;
}
